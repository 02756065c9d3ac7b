//! Memory on the host: blocks with guards at both ends.

use crate::backend::cuda::program;
use crate::error::Result;

/// Bytes of a guard.
const GUARD: usize = 1024;
/// What guards and fresh memory hold: NaN in floats.
const FILL: u8 = 0xff;
/// Alignment of tensors: a `float4`.
const ALIGN: usize = 16;

/// A piece of memory between two guards.
#[derive(Debug)]
pub(super) struct Block {
    words: Vec<u128>,
    bytes: usize,
}

impl Block {
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = bytes as usize;
        let words = (bytes + 2 * GUARD).div_ceil(ALIGN);
        Self { words: vec![u128::MAX; words], bytes }
    }

    fn all(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// The memory itself.
    fn bytes(&self) -> &[u8] {
        &self.all()[GUARD..GUARD + self.bytes]
    }

    /// The memory itself, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        &mut all[GUARD..GUARD + bytes]
    }

    /// Whether nobody has written beside it.
    fn is_whole(&self) -> bool {
        let all = self.all();
        all[..GUARD].iter().chain(&all[GUARD + self.bytes..]).all(|byte| *byte == FILL)
    }
}

impl program::Block for Block {
    fn clear(&mut self, bytes: u64) -> Result<()> {
        self.bytes_mut()[..bytes as usize].fill(0);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.bytes_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.bytes()[at as usize..][..bytes.len()]);
        Ok(())
    }
}

impl program::Memory<Block> {
    /// Makes transients hold nothing.
    pub(super) fn forget_transients(&mut self) {
        self.blocks[..self.slots].iter_mut().for_each(|block| block.bytes_mut().fill(FILL));
    }

    /// The first block that was written beside, by a tensor in it.
    pub(super) fn damaged(&self) -> Option<u32> {
        let bad = self.blocks.iter().position(|block| !block.is_whole())?;
        self.place.iter().position(|at| *at == Some(bad)).map(|id| id as u32)
    }
}
