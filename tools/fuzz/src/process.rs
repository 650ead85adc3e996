// SPDX-License-Identifier: GPL-2.0

//! What /proc tells of a process.

use std::{
    fs::{self, read_to_string},
    path::Path,
};

/// The states and the kernel stacks of its threads, for who wonders what it waits for.
pub fn stacks(pid: u32) -> String {
    let mut text = String::new();
    let dir = format!("/proc/{pid}/task");
    let Ok(tasks) = fs::read_dir(&dir) else {
        return format!("  process {pid} is gone\n");
    };
    for task in tasks.flatten() {
        text += &thread(&task.path());
    }
    text
}

fn thread(task: &Path) -> String {
    let get = |name: &str| read_to_string(task.join(name)).unwrap_or_default();
    let tid = task.file_name().unwrap_or_default().to_string_lossy();
    let status = get("status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.map_or("", |line| line[name.len()..].trim())
            .to_string()
    };
    let mut text = format!(
        "  thread {tid} ({}): state {}, system call {}, run and waiting ns, slices: {}\n",
        get("comm").trim(),
        field("State:"),
        get("syscall").trim(),
        get("schedstat").trim(),
    );
    for line in get("stack").lines() {
        text += &format!("    {line}\n");
    }
    text
}
