// SPDX-License-Identifier: GPL-2.0

//! The attributes that `model-kernel` offers.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// As the kernel's `pin_data`, but that nothing is pinned: the attribute `#[pin]` of fields has no
/// meaning, and is dropped.
#[proc_macro_attribute]
pub fn pin_data(_args: TokenStream, item: TokenStream) -> TokenStream {
    without_pin(item)
}

fn without_pin(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut kept = Vec::new();

    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct)
                if punct.as_char() == '#' && tokens.peek().is_some_and(is_pin) =>
            {
                tokens.next();
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_pin(group.stream()));

                inner.set_span(group.span());
                kept.push(TokenTree::Group(inner));
            }
            token => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

/// Whether this is `[pin]`.
fn is_pin(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => {
            group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "pin"
        }
        _ => false,
    }
}
