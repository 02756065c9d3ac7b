//! Memory of a program on the host: a block for every slot and tensor, with guards at both ends.

use crate::graph::{Kind, Schedule, device_bytes};

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
    fn new(bytes: u64) -> Self {
        let bytes = bytes as usize;
        let words = (bytes + 2 * GUARD).div_ceil(ALIGN);
        Self { words: vec![u128::MAX; words], bytes }
    }

    fn all(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// The memory itself.
    pub(super) fn bytes(&self) -> &[u8] {
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

/// Memory of all tensors.
#[derive(Debug)]
pub(super) struct Memory {
    blocks: Vec<Block>,
    /// The block of each tensor that owns memory.
    place: Vec<Option<usize>>,
    /// Blocks that transients share.
    slots: usize,
}

impl Memory {
    /// For a schedule, with its constants in place.
    pub(super) fn of(schedule: &Schedule) -> Self {
        let mut blocks: Vec<Block> = schedule.slots.iter().map(|slot| Block::new(slot.bytes)).collect();
        let slots = blocks.len();
        let mut place = schedule.slot_of.clone();
        for (id, info) in schedule.tensors.iter().enumerate() {
            if info.base.is_none() && info.kind != Kind::Transient {
                let mut block = Block::new(device_bytes(info));
                // Outputs begin as zeros on every backend.
                block.bytes_mut().fill(0);
                if let Some(constant) = &info.constant {
                    let bytes = constant.device_bytes();
                    block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                }
                place[id] = Some(blocks.len());
                blocks.push(block);
            }
        }
        Self { blocks, place, slots }
    }

    /// The block of a tensor that owns memory; `None` for one that no step touches.
    pub(super) fn block(&mut self, id: u32) -> Option<&mut Block> {
        self.place[id as usize].map(|at| &mut self.blocks[at])
    }

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
