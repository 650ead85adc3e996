// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The GIDs of a port, as sysfs lists them.

use std::{
    fmt, fs,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    str::FromStr,
};

use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// A GID: a port's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The IPv4 address in it, as RoCE v2 has it.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl FromStr for Gid {
    type Err = std::net::AddrParseError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(Gid(s.trim().parse::<Ipv6Addr>()?.octets()))
    }
}

impl Serialize for Gid {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Gid {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// An entry of a port's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Its index in the table.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
}

/// The first GID of a port that is of RoCE v2 and has an IPv4 address.
///
/// `port_dir` is `/sys/class/infiniband/DEVICE/ports/PORT`.
pub fn find_gid(port_dir: &Path) -> Option<GidEntry> {
    let mut indices: Vec<u8> = fs::read_dir(port_dir.join("gids"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    indices.sort_unstable();
    indices.into_iter().find_map(|index| {
        let read = |dir| fs::read_to_string(port_dir.join(dir).join(index.to_string())).ok();
        // Reading the type of an entry that is not in use is an error.
        let v2 = read("gid_attrs/types")?.trim() == "RoCE v2";
        let gid: Gid = read("gids")?.parse().ok()?;
        (v2 && gid.ipv4().is_some()).then_some(GidEntry { index, gid })
    })
}

pub(crate) fn find_gid_of(device: &str, port: u8) -> Result<GidEntry> {
    let dir = Path::new("/sys/class/infiniband")
        .join(device)
        .join("ports")
        .join(port.to_string());
    find_gid(&dir).ok_or_else(|| Error::NoGid {
        device: device.to_string(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port's directory with these GIDs and types.
    fn port(entries: &[(&str, Option<&str>)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("gids")).unwrap();
        fs::create_dir_all(dir.path().join("gid_attrs/types")).unwrap();
        for (i, (gid, kind)) in entries.iter().enumerate() {
            let name = i.to_string();
            fs::write(dir.path().join("gids").join(&name), format!("{gid}\n")).unwrap();
            if let Some(kind) = kind {
                let path = dir.path().join("gid_attrs/types").join(&name);
                fs::write(path, format!("{kind}\n")).unwrap();
            }
        }
        dir
    }

    const LINK_LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
    const V4: &str = "0000:0000:0000:0000:0000:ffff:0a00:020f";
    const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    #[test]
    fn the_ipv4_entry_of_roce_v2_is_found() {
        let port = port(&[
            (LINK_LOCAL, Some("RoCE v2")),
            (V4, Some("IB/RoCE v1")),
            (V4, Some("RoCE v2")),
            (NONE, None),
        ]);
        let entry = find_gid(port.path()).unwrap();
        assert_eq!(entry.index, 2);
        assert_eq!(entry.gid.ipv4(), Some(Ipv4Addr::new(10, 0, 2, 15)));
    }

    #[test]
    fn without_an_address_there_is_none() {
        let port = port(&[(LINK_LOCAL, Some("RoCE v2")), (NONE, None)]);
        assert_eq!(find_gid(port.path()), None);
        assert_eq!(find_gid(Path::new("/nonexistent")), None);
    }

    #[test]
    fn gids_are_written_as_addresses() {
        let gid: Gid = V4.parse().unwrap();
        assert_eq!(gid.to_string(), "::ffff:10.0.2.15");
        assert_eq!(gid.to_string().parse(), Ok(gid));
    }
}
