// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Where a function is that we have the name of, too, for dlsym(3) itself.
//!
//! "The next one" of any other function is what dlsym(3) tells. This looks into the symbol
//! tables of what is loaded, in the order in which the dynamic linker does.

use std::{
    ffi::{c_char, c_int, c_void, CStr},
    ptr,
};

/// Finds the first one after ours, or else the first one that is not ours.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let mut search = Search {
        name,
        ours: find as *const () as usize,
        passed: false,
        before: ptr::null_mut(),
        after: ptr::null_mut(),
    };
    // SAFETY: `visit` takes a `Search`.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    match search.after.is_null() {
        true => search.before,
        false => search.after,
    }
}

struct Search<'a> {
    name: &'a CStr,
    /// An address in the object that we are in.
    ours: usize,
    /// That object was visited.
    passed: bool,
    before: *mut c_void,
    after: *mut c_void,
}

/// # Safety
///
/// A loaded object and a [`Search`].
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: The caller's word.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    // SAFETY: As above.
    let Some(object) = (unsafe { Object::new(info, search.ours) }) else {
        return 0;
    };
    if object.is_wanted {
        search.passed = true;
        return 0;
    }
    let place = match search.passed {
        true => &mut search.after,
        false => &mut search.before,
    };
    if place.is_null() {
        // SAFETY: It is loaded.
        *place = unsafe { object.find(search.name) };
    }
    c_int::from(!search.after.is_null())
}

/// A loaded object, as far as it takes to look up a symbol.
struct Object {
    base: usize,
    symbols: *const libc::Elf64_Sym,
    strings: *const c_char,
    /// Of the `DT_GNU_HASH` section.
    hash: *const u32,
    versions: *const u16,
    /// It contains the address that was asked for.
    is_wanted: bool,
}

impl Object {
    /// `None`: it has no symbols to look up.
    ///
    /// # Safety
    ///
    /// A loaded object.
    unsafe fn new(info: &libc::dl_phdr_info, wanted: usize) -> Option<Self> {
        const DT_STRTAB: usize = 5;
        const DT_SYMTAB: usize = 6;
        const DT_GNU_HASH: usize = 0x6fff_fef5;
        const DT_VERSYM: usize = 0x6fff_fff0;
        let base = info.dlpi_addr as usize;
        let mut object = Object {
            base,
            symbols: ptr::null(),
            strings: ptr::null(),
            hash: ptr::null(),
            versions: ptr::null(),
            is_wanted: false,
        };
        for i in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: The caller's word.
            let header = unsafe { &*info.dlpi_phdr.add(i) };
            let start = base.wrapping_add(header.p_vaddr as usize);
            match header.p_type {
                libc::PT_LOAD => {
                    object.is_wanted |= wanted.wrapping_sub(start) < header.p_memsz as usize;
                }
                libc::PT_DYNAMIC => {
                    let mut entry = start as *const [usize; 2];
                    loop {
                        // SAFETY: It ends with a 0.
                        let [tag, value] = unsafe { *entry };
                        if tag == 0 {
                            break;
                        }
                        // The linker makes addresses of them, but not those of the vDSO.
                        let address = match value < base {
                            true => base + value,
                            false => value,
                        };
                        match tag {
                            DT_STRTAB => object.strings = address as *const c_char,
                            DT_SYMTAB => object.symbols = address as *const libc::Elf64_Sym,
                            DT_GNU_HASH => object.hash = address as *const u32,
                            DT_VERSYM => object.versions = address as *const u16,
                            _ => (),
                        }
                        // SAFETY: As above.
                        entry = unsafe { entry.add(1) };
                    }
                }
                _ => (),
            }
        }
        let complete =
            !object.symbols.is_null() && !object.strings.is_null() && !object.hash.is_null();
        complete.then_some(object)
    }

    /// Finds a function's default version, or NULL.
    ///
    /// # Safety
    ///
    /// The object is loaded.
    unsafe fn find(&self, name: &CStr) -> *mut c_void {
        const STT_FUNC: u8 = 2;
        const HIDDEN: u16 = 0x8000;
        let wanted = gnu_hash(name);
        // SAFETY: The linker relies on these tables, too: so many words that describe it,
        // the Bloom filter, the buckets, and for each symbol its hash, of which the last one
        // of a bucket is odd.
        unsafe {
            let [buckets, first, bloom] = *self.hash.cast::<[u32; 3]>();
            let table = self.hash.add(4 + bloom as usize * 2);
            if buckets == 0 {
                return ptr::null_mut();
            }
            let mut index = *table.add((wanted % buckets) as usize);
            if index < first {
                return ptr::null_mut();
            }
            let chain = table.add(buckets as usize);
            loop {
                let hash = *chain.add((index - first) as usize);
                let symbol = &*self.symbols.add(index as usize);
                if hash | 1 == wanted | 1
                    && symbol.st_shndx != 0
                    && symbol.st_info & 0xf == STT_FUNC
                    && (self.versions.is_null() || *self.versions.add(index as usize) & HIDDEN == 0)
                    && CStr::from_ptr(self.strings.add(symbol.st_name as usize)) == name
                {
                    return self.base.wrapping_add(symbol.st_value as usize) as *mut c_void;
                }
                if hash & 1 != 0 {
                    return ptr::null_mut();
                }
                index += 1;
            }
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381, |hash: u32, c| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_the_linker_finds() {
        for name in [c"getpid", c"malloc", c"dl_iterate_phdr", c"pthread_create"] {
            // SAFETY: A string.
            let linker = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            assert!(!linker.is_null());
            assert_eq!(find(name), linker, "{name:?}");
        }
        assert!(find(c"there_is_no_such_function").is_null());
    }

    #[test]
    fn the_hash_is_that_of_gnu() {
        assert_eq!(gnu_hash(c""), 0x1505);
        assert_eq!(gnu_hash(c"printf"), 0x156b_2bb8);
        assert_eq!(gnu_hash(c"syscall"), 0xbac2_12a0);
    }
}
