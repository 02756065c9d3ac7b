//! Queries and keys with a code: what an attention of any kind then takes in their place.
//!
//! q̂(n, r) = Σ_d q_d(n) q̃_d(n, r), and k̂ with the keys' code. The result has R dimensions per head, and a softmax attention of it
//! must divide by √R, not √D: then logits estimate Σ_d q_d P̃_d k_d/√D (method: 1.5). Values and embeddings are left alone.

use super::{Codes, check_len};
use crate::error::Result;
use crate::kernel::reference::Real;
use rayon::prelude::*;

/// Which side's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Queries.
    Query,
    /// Keys.
    Key,
}

/// x̂ `[b, h, n, r]` of queries or keys `x` `[b, h, n, d]`. A code of more tokens than n gives its first n.
///
/// Errors: [`crate::Error::Data`] for an `x` whose size is not b · H · n · D with the code's H and D, and n beyond the code's tokens.
pub fn apply<T: Real>(codes: &Codes<T>, side: Side, x: &[T], batch: u32, tokens: u32) -> Result<Vec<T>> {
    codes.check()?;
    let (heads, width, row) = (codes.heads as usize, codes.width as usize, codes.realizations as usize);
    let n = tokens as usize;
    let shape =
        [("b", batch.into()), ("h", codes.heads.into()), ("n", tokens.into()), ("d", codes.width.into())];
    check_len("queries or keys", &shape, x.len())?;
    if n > codes.tokens {
        return Err(crate::Error::Data {
            tensor: "position code".into(),
            expected: format!("at least {n} tokens, as the queries or keys have"),
            got: format!("{} tokens", codes.tokens),
        });
    }
    super::count("queries or keys", &[("rows", (x.len() / width) as u64), ("realisations", row as u64)])?;
    let code = match side {
        Side::Query => &codes.q,
        Side::Key => &codes.k,
    };
    let mut out = vec![T::zero(); x.len() / width * row];
    out.par_chunks_mut(row).zip(x.par_chunks(width)).enumerate().for_each(|(line, (out, x))| {
        let (token, head) = (line % n, line / n % heads);
        let block = &code[codes.at(token, head as u32, 0)..][..width * row];
        for (&x, code) in x.iter().zip(block.chunks(row)) {
            for (y, &c) in out.iter_mut().zip(code) {
                *y += x * c;
            }
        }
    });
    Ok(out)
}
