// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Text as rdma(8) prints it, or JSON.

use std::{
    fmt::{Display, Write as _},
    io::{self, ErrorKind, Write as _},
};

use anyhow::Result;
use serde::Serialize;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line each, of words in pairs.
    Text,
    /// One line of JSON.
    Json,
    /// JSON for people.
    PrettyJson,
}

/// Prints the elements of a list.
pub fn print<T: Serialize + Display>(format: Format, elements: &[T]) -> Result<()> {
    let mut text = String::new();
    match format {
        Format::Text => elements.iter().try_for_each(|e| writeln!(text, "{e}"))?,
        Format::Json => writeln!(text, "{}", serde_json::to_string(elements)?)?,
        Format::PrettyJson => writeln!(text, "{}", serde_json::to_string_pretty(elements)?)?,
    }
    match io::stdout().lock().write_all(text.as_bytes()) {
        // As `ibxrc ... | head` wants it.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
