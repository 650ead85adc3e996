// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! `ibxrc dev`

use std::fmt;

use anyhow::Result;
use ibxrc::DeviceInfo;
use serde::Serialize;

use crate::output::{print, Format};

/// A device, with the words that rdma(8) uses.
#[derive(Serialize)]
struct Device {
    ifindex: u32,
    ifname: String,
    node_guid: String,
    ports: u32,
    backend: &'static str,
}

impl From<DeviceInfo> for Device {
    fn from(info: DeviceInfo) -> Self {
        let guid = info.node_guid.to_be_bytes();
        let pairs: Vec<_> = guid
            .chunks(2)
            .map(|p| format!("{:02x}{:02x}", p[0], p[1]))
            .collect();
        Device {
            ifindex: info.index,
            ifname: info.name,
            node_guid: pairs.join(":"),
            ports: info.ports,
            backend: if info.soft { "soft" } else { "native" },
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: node_guid {} ports {} backend {}",
            self.ifindex, self.ifname, self.node_guid, self.ports, self.backend
        )
    }
}

/// Shows all devices.
pub fn show(format: Format) -> Result<()> {
    let devices: Vec<_> = ibxrc::list_devices()?
        .into_iter()
        .map(Device::from)
        .collect();
    print(format, &devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_looks_as_in_rdma() {
        let device = Device {
            ifindex: 0,
            ifname: "rxe0".into(),
            node_guid: "5054:00ff:fe12:3456".into(),
            ports: 1,
            backend: "soft",
        };
        assert_eq!(
            device.to_string(),
            "0: rxe0: node_guid 5054:00ff:fe12:3456 ports 1 backend soft"
        );
    }
}
