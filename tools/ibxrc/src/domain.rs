// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! `ibxrc domain`

use std::{fmt, fs::File, os::fd::AsFd, path::Path};

use anyhow::{bail, Context as _, Result};
use ibxrc::{Context, Errno, Xrcd, XrcdInfo, XrcdOptions};
use serde::Serialize;

use crate::{
    output::{print, Format},
    rules::Rules,
    srq::Srq,
    tgt_qp::{Holder, TgtQp},
};

/// A domain and its TGT QPs.
#[derive(Serialize)]
struct Domain {
    ifname: String,
    file: String,
    inode: u64,
    #[serde(flatten)]
    rules: Rules,
    handles: u32,
    bytes: u64,
    srqs: u32,
    tgt_qps: Vec<TgtQp>,
    /// With details only.
    #[serde(skip_serializing_if = "Option::is_none")]
    srq_list: Option<Vec<Srq>>,
}

impl Domain {
    fn new(ifname: &str, file: &Path, info: &XrcdInfo, rules: Rules, tgt_qps: Vec<TgtQp>) -> Self {
        Domain {
            ifname: ifname.to_string(),
            file: file.display().to_string(),
            inode: info.inode,
            rules,
            // One is ours, to look at it.
            handles: info.handles.saturating_sub(1),
            bytes: info.bytes,
            srqs: info.srqs,
            tgt_qps,
            srq_list: None,
        }
    }

    fn add_details(&mut self, xrcd: &Xrcd) -> Result<()> {
        for qp in &mut self.tgt_qps {
            let holders = match xrcd.tgt_qp_holders(qp.lqpn) {
                // It is gone meanwhile.
                Err(e) if e.errno() == Errno::EINVAL => Vec::new(),
                other => other?,
            };
            qp.holders = Some(holders.iter().map(Holder::from).collect());
        }
        self.srq_list = Some(xrcd.srqs()?.iter().map(Srq::from).collect());
        Ok(())
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dev {} file {} inode {} {} handles {} bytes {} srqs {} tgt-qps {}",
            self.ifname,
            self.file,
            self.inode,
            self.rules,
            self.handles,
            self.bytes,
            self.srqs,
            self.tgt_qps.len()
        )?;
        for qp in &self.tgt_qps {
            write!(f, "\n    {qp}")?;
        }
        for srq in self.srq_list.iter().flatten() {
            write!(f, "\n    {srq}")?;
        }
        Ok(())
    }
}

/// The domain of a file on one device, if it has one there.
fn on_device(device: &str, path: &Path, file: &File, details: bool) -> Result<Option<Domain>> {
    let context = Context::open(device)?;
    let xrcd = context.open_xrcd(XrcdOptions {
        file: Some(file.as_fd()),
        ..Default::default()
    });
    let xrcd = match xrcd {
        Err(e) if e.errno() == Errno::EAGAIN => return Ok(None),
        other => other?,
    };
    let (info, policy) = (xrcd.query()?, xrcd.query_policy()?);
    let tgt_qps = xrcd.tgt_qps()?.iter().map(TgtQp::from).collect();
    let mut domain = Domain::new(device, path, &info, Rules::from(&policy), tgt_qps);
    if details {
        domain.add_details(&xrcd)?;
    }
    Ok(Some(domain))
}

/// Shows the domain of a file.
pub fn show(path: &Path, device: Option<&str>, details: bool, format: Format) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let devices = match device {
        Some(device) => vec![device.to_string()],
        None => ibxrc::list_devices()?.into_iter().map(|d| d.name).collect(),
    };
    let mut domains = Vec::new();
    for device in &devices {
        domains.extend(on_device(device, path, &file, details)?);
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
    use ibxrc::DomainPolicy;

    use super::*;

    fn domain() -> Domain {
        Domain {
            ifname: "rxe0".into(),
            file: "/run/job".into(),
            inode: 7,
            rules: Rules::from(&DomainPolicy::default()),
            handles: 2,
            bytes: 4096,
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
                    holders: None,
                },
                TgtQp {
                    lqpn: 18,
                    rqpn: Some(99),
                    state: "RTR",
                    refs: 2,
                    recv_msgs: 3,
                    recv_bytes: 4,
                    refused_msgs: 5,
                    holders: None,
                },
            ],
            srq_list: None,
        }
    }

    /// With a process that there is not, so that it has no name.
    fn detailed() -> Domain {
        let mut domain = domain();
        domain.tgt_qps.truncate(1);
        domain.tgt_qps[0].holders = Some(vec![
            Holder {
                id: 1,
                process: Some(u32::MAX.into()),
            },
            Holder {
                id: 4,
                process: None,
            },
        ]);
        domain.srq_list = Some(vec![Srq {
            srqn: 5,
            state: "RDY",
            waiting_msgs: 1,
            recv_msgs: 2,
            process: Some(u32::MAX.into()),
        }]);
        domain
    }

    #[test]
    fn a_domain_is_a_line_and_one_for_each_tgt_qp() {
        assert_eq!(
            domain().to_string(),
            "dev rxe0 file /run/job inode 7 policy refs handles 2 bytes 4096 srqs 1 tgt-qps 2\n    \
             tgt-qp lqpn 17 state RESET refs 1 recv-msgs 0 recv-bytes 0 refused-msgs 0\n    \
             tgt-qp lqpn 18 rqpn 99 state RTR refs 2 recv-msgs 3 recv-bytes 4 refused-msgs 5"
        );
    }

    #[test]
    fn details_are_holders_and_srqs() {
        assert_eq!(
            detailed().to_string(),
            "dev rxe0 file /run/job inode 7 policy refs handles 2 bytes 4096 srqs 1 tgt-qps 1\n    \
             tgt-qp lqpn 17 state RESET refs 1 recv-msgs 0 recv-bytes 0 refused-msgs 0\n        \
             holder 1 pid 4294967295\n        \
             holder 4\n    \
             srq srqn 5 state RDY waiting-msgs 1 recv-msgs 2 pid 4294967295"
        );
    }

    #[test]
    fn json_has_the_same() {
        let json = serde_json::to_value(domain()).unwrap();
        assert_eq!(json["tgt_qps"][1]["rqpn"], 99);
        assert!(json["tgt_qps"][0].get("rqpn").is_none());
        assert!(json["tgt_qps"][0].get("holders").is_none());
        assert!(json.get("srq_list").is_none());
        assert_eq!(json["policy"], "refs");
        assert_eq!(json["max_bytes"], 0);

        let json = serde_json::to_value(detailed()).unwrap();
        let holders = &json["tgt_qps"][0]["holders"];
        assert_eq!(holders[0]["pid"], u32::MAX);
        assert!(holders[1].get("pid").is_none());
        assert_eq!(json["srq_list"][0]["srqn"], 5);
    }
}
