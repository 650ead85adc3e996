// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What rdma(8), which knows nothing of this project, says about a QP.

use std::process::Command;

use anyhow::{bail, Context, Result};

/// The line of `rdma resource show qp` about a QP, if there is one.
pub fn show_qp(device: &str, qp_num: u32) -> Result<Option<String>> {
    let output = Command::new("rdma")
        .args(["resource", "show", "qp"])
        .output()
        .context("cannot run `rdma`, which is part of iproute2")?;
    if !output.status.success() {
        bail!(
            "`rdma resource show qp` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(find(&text, device, qp_num).map(str::to_string))
}

fn find<'a>(text: &'a str, device: &str, qp_num: u32) -> Option<&'a str> {
    let qp_num = qp_num.to_string();
    text.lines().map(str::trim).find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let has = |key, value: &dyn Fn(&str) -> bool| {
            words
                .windows(2)
                .any(|pair| pair[0] == key && value(pair[1]))
        };
        has("link", &|v| v.split('/').next() == Some(device)) && has("lqpn", &|v| v == qp_num)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
link rxe0/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core]
link rxe0/1 lqpn 17 rqpn 18 type RC state RTR rq-psn 0 comm [ib_xrc]
link siw0/1 lqpn 18 type RC state RTS sq-psn 0 pid 42 comm ibxrc-demo
";

    #[test]
    fn the_line_of_a_qp_is_found() {
        assert_eq!(find(TEXT, "rxe0", 17), TEXT.lines().nth(1));
        // Another device, the number of the peer, and a part of a number.
        assert_eq!(find(TEXT, "rxe0", 18), None);
        assert_eq!(find(TEXT, "siw0", 1), None);
    }
}
