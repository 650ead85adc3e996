// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! `ibxrc domain`

use std::{fmt, fs::File, os::fd::AsFd, path::Path};

use anyhow::{bail, Context as _, Result};
use ibxrc::{Context, Errno, TgtQpInfo, XrcdInfo, XrcdOptions};
use serde::Serialize;

use crate::output::{print, Format};

/// A domain and its TGT QPs.
#[derive(Serialize)]
struct Domain {
    ifname: String,
    file: String,
    inode: u64,
    policy: String,
    handles: u32,
    srqs: u32,
    tgt_qps: Vec<TgtQp>,
}

/// A TGT QP, with the words that rdma(8) uses.
#[derive(Serialize)]
struct TgtQp {
    lqpn: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rqpn: Option<u32>,
    state: &'static str,
    refs: u32,
    recv_msgs: u64,
    recv_bytes: u64,
    refused_msgs: u64,
}

impl Domain {
    fn new(ifname: &str, file: &Path, info: &XrcdInfo, tgt_qps: &[TgtQpInfo]) -> Self {
        Domain {
            ifname: ifname.to_string(),
            file: file.display().to_string(),
            inode: info.inode,
            policy: info.policy.to_string(),
            // One is ours, to look at it.
            handles: info.handles.saturating_sub(1),
            srqs: info.srqs,
            tgt_qps: tgt_qps.iter().map(TgtQp::from).collect(),
        }
    }
}

impl From<&TgtQpInfo> for TgtQp {
    fn from(info: &TgtQpInfo) -> Self {
        TgtQp {
            lqpn: info.qp_num,
            rqpn: (info.dest_qp_num != 0).then_some(info.dest_qp_num),
            state: info.state.name(),
            refs: info.refs,
            recv_msgs: info.recv_msgs,
            recv_bytes: info.recv_bytes,
            refused_msgs: info.refused_msgs,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dev {} file {} inode {} policy {} handles {} srqs {} tgt-qps {}",
            self.ifname,
            self.file,
            self.inode,
            self.policy,
            self.handles,
            self.srqs,
            self.tgt_qps.len()
        )?;
        for qp in &self.tgt_qps {
            write!(f, "\n    tgt-qp lqpn {}", qp.lqpn)?;
            if let Some(rqpn) = qp.rqpn {
                write!(f, " rqpn {rqpn}")?;
            }
            write!(
                f,
                " state {} refs {} recv-msgs {} recv-bytes {} refused-msgs {}",
                qp.state, qp.refs, qp.recv_msgs, qp.recv_bytes, qp.refused_msgs
            )?;
        }
        Ok(())
    }
}

/// The domain of a file on one device, if it has one there.
fn on_device(device: &str, path: &Path, file: &File) -> Result<Option<Domain>> {
    let context = Context::open(device)?;
    let xrcd = context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        ..Default::default()
    });
    let xrcd = match xrcd {
        Err(e) if e.errno() == Errno::EAGAIN => return Ok(None),
        other => other?,
    };
    let (info, tgt_qps) = (xrcd.query()?, xrcd.tgt_qps()?);
    Ok(Some(Domain::new(device, path, &info, &tgt_qps)))
}

/// Shows the domain of a file.
pub fn show(path: &Path, device: Option<&str>, format: Format) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let devices = match device {
        Some(device) => vec![device.to_string()],
        None => ibxrc::list_devices()?.into_iter().map(|d| d.name).collect(),
    };
    let mut domains = Vec::new();
    for device in &devices {
        domains.extend(on_device(device, path, &file)?);
    }
    if domains.is_empty() {
        bail!(
            "{} has no XRC domain on {}",
            path.display(),
            device.unwrap_or("any device")
        );
    }
    print(format, &domains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain() -> Domain {
        Domain {
            ifname: "rxe0".into(),
            file: "/run/job".into(),
            inode: 7,
            policy: "refs".into(),
            handles: 2,
            srqs: 1,
            tgt_qps: vec![
                TgtQp {
                    lqpn: 17,
                    rqpn: None,
                    state: "RESET",
                    refs: 1,
                    recv_msgs: 0,
                    recv_bytes: 0,
                    refused_msgs: 0,
                },
                TgtQp {
                    lqpn: 18,
                    rqpn: Some(99),
                    state: "RTR",
                    refs: 2,
                    recv_msgs: 3,
                    recv_bytes: 4,
                    refused_msgs: 5,
                },
            ],
        }
    }

    #[test]
    fn a_domain_is_a_line_and_one_for_each_tgt_qp() {
        assert_eq!(
            domain().to_string(),
            "dev rxe0 file /run/job inode 7 policy refs handles 2 srqs 1 tgt-qps 2\n    \
             tgt-qp lqpn 17 state RESET refs 1 recv-msgs 0 recv-bytes 0 refused-msgs 0\n    \
             tgt-qp lqpn 18 rqpn 99 state RTR refs 2 recv-msgs 3 recv-bytes 4 refused-msgs 5"
        );
    }

    #[test]
    fn json_has_the_same() {
        let json = serde_json::to_value(domain()).unwrap();
        assert_eq!(json["tgt_qps"][1]["rqpn"], 99);
        assert!(json["tgt_qps"][0].get("rqpn").is_none());
        assert_eq!(json["policy"], "refs");
    }
}
