// SPDX-License-Identifier: GPL-2.0

//! Sequences that covered something new. A process inherits those that its parent had
//! gathered, and leaves its own in a directory for the parent to gather.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};

use crate::{mutate, op::Sequence, random::Random};

/// Sequences that are mutated at a time.
const MAX: usize = 500;

pub struct Corpus {
    dir: PathBuf,
    /// Files of the directory that were read.
    seen: HashSet<OsString>,
    kept: Mutex<Vec<Sequence>>,
}

impl Corpus {
    /// An empty one. Processes leave theirs in `dir`, which is made.
    pub fn new(dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Corpus {
            dir,
            seen: HashSet::new(),
            kept: Mutex::default(),
        })
    }

    /// Takes those of an earlier run, if there are any: one a line.
    pub fn load(&mut self, file: &Path) -> Result<()> {
        if fs::exists(file).unwrap_or(false) {
            for sequence in read(file)? {
                self.add(sequence);
            }
        }
        Ok(())
    }

    /// Takes what processes have left since.
    pub fn gather(&mut self) -> Result<()> {
        for entry in fs::read_dir(&self.dir).context("cannot look for sequences")? {
            let entry = entry?;
            if self.seen.contains(&entry.file_name()) {
                continue;
            }
            // One that was not written to its end, since the process was killed, is no loss.
            for sequence in read(&entry.path()).unwrap_or_default() {
                self.add(sequence);
            }
            self.seen.insert(entry.file_name());
        }
        Ok(())
    }

    /// Keeps all for another run.
    pub fn save(&self, file: &Path) -> Result<()> {
        let write = || -> Result<()> {
            let mut out = BufWriter::new(fs::File::create(file)?);
            for sequence in self
                .kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
            {
                writeln!(out, "{}", serde_json::to_string(sequence)?)?;
            }
            Ok(out.flush()?)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    /// One more. The place of which other one it takes, if there are too many, is as good as
    /// random.
    fn add(&self, sequence: Sequence) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX {
            kept.push(sequence);
        } else {
            let place = (self.seen.len() + sequence.len()) % MAX;
            kept[place] = sequence;
        }
    }

    /// A mutant of one of them, if there are any.
    pub fn mutant(&self, random: &mut Random) -> Option<Sequence> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let n = kept.len() as u32;
        if n == 0 {
            return None;
        }
        let mut sequence = kept[random.below(n) as usize].clone();
        let other = &kept[random.below(n) as usize];
        mutate::sequence(random, &mut sequence, other);
        Some(sequence)
    }

    /// Keeps one, and leaves it under a name that no other has.
    pub fn keep(&self, name: &str, sequence: Sequence) -> Result<()> {
        let path = self.dir.join(name);
        let text = serde_json::to_string(&sequence)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        self.add(sequence);
        Ok(())
    }
}

/// The sequences of a file: one a line.
pub fn read(file: &Path) -> Result<Vec<Sequence>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).context("not a sequence"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;

    #[test]
    fn what_was_kept_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(1, [0; 4]);
        let left = dir.path().join("left");
        let child = Corpus::new(left.clone()).unwrap();
        let mut parent = Corpus::new(left.clone()).unwrap();
        let file = dir.path().join("corpus");
        parent.load(&file).unwrap();
        assert!(parent.mutant(&mut random).is_none());

        let sequence = generate::sequence(&mut random);
        child.keep("a", sequence.clone()).unwrap();
        assert!(child.mutant(&mut random).is_some());
        fs::write(left.join("b"), "[{\"Cal").unwrap();
        for _ in 0..2 {
            parent.gather().unwrap();
            assert_eq!(*parent.kept.lock().unwrap(), [sequence.clone()]);
        }

        parent.save(&file).unwrap();
        assert_eq!(read(&file).unwrap(), [sequence]);
        let mut again = Corpus::new(left).unwrap();
        again.load(&file).unwrap();
        assert!(again.mutant(&mut random).is_some());
    }
}
