//! What a compiled graph does on a GPU, as plain data: buffers with their first contents, shaders as flat WGSL, and copies
//! and dispatches in order; or joined CUDA sources and their launches.
//!
//! Anything that can run WebGPU, or CUDA, can run a recording, without this crate: it is what a bug report to a driver's
//! authors holds, and what the conformance page gives to a browser.

use crate::tensor::Tensor;

/// A run of a compiled graph. Everything is referred to by its place in these lists.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Buffers, those of parameters included.
    pub buffers: Vec<BufferRecord>,
    /// Textures.
    pub textures: Vec<TextureRecord>,
    /// Different shaders.
    pub shaders: Vec<ShaderRecord>,
    /// Different CUDA sources; none on WebGPU.
    pub sources: Vec<SourceRecord>,
    /// What is done, in order.
    pub commands: Vec<Command>,
    /// Where inputs and outputs are: the tensor's number and its place.
    pub(crate) homes: Vec<(u32, Home)>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub struct BufferRecord {
    /// What it holds: a tensor's name, `params`, or the number of a slot that several transients share.
    pub label: String,
    /// Its size.
    pub bytes: u64,
    /// Usages in WebGPU's words: `storage`, `uniform`, `indirect`, `copy_src`, `copy_dst`; none on CUDA.
    pub usage: Vec<&'static str>,
    /// Its first bytes before the run, little-endian; the rest is zero.
    pub contents: Vec<u8>,
}

/// A two-dimensional texture.
#[derive(Clone, Debug)]
pub struct TextureRecord {
    /// What it holds.
    pub label: String,
    /// Texels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Format in WebGPU's words: `rgba8unorm` or `rgba32float`.
    pub format: &'static str,
    /// Usages in WebGPU's words: `texture_binding`, `storage_binding`, `copy_src`, `copy_dst`.
    pub usage: Vec<&'static str>,
    /// Its rows before the run, one after another without padding; empty for zeros.
    pub contents: Vec<u8>,
}

/// A shader.
#[derive(Clone, Debug)]
pub struct ShaderRecord {
    /// Kernel and variant.
    pub name: String,
    /// Entry point.
    pub entry: &'static str,
    /// Flat WGSL.
    pub source: String,
    /// Numbers of its bindings in group 0, with their kinds: `uniform`, `storage`, `read-only-storage`, `texture` (unfilterable
    /// float) or `storage-texture` (`rgba8unorm`, written).
    pub bindings: Vec<(u32, &'static str)>,
    /// Workgroup size.
    pub workgroup_size: [u32; 3],
    /// Bytes of workgroup memory, by our own counting.
    pub workgroup_bytes: u32,
}

/// A source in CUDA C++.
#[derive(Clone, Debug)]
pub struct SourceRecord {
    /// Kernel and source.
    pub name: String,
    /// Entry point, `extern "C"`.
    pub entry: &'static str,
    /// The joined text, as NVRTC gets it.
    pub text: String,
    /// Threads of a block.
    pub threads: u32,
}

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Command {
    /// From one buffer to the start of another.
    Copy {
        /// Source buffer.
        from: usize,
        /// Byte in the source.
        offset: u64,
        /// Target buffer.
        to: usize,
        /// Bytes.
        bytes: u64,
    },
    /// From a buffer to rows of a texture.
    CopyToTexture {
        /// Source buffer.
        from: usize,
        /// Byte in the source.
        offset: u64,
        /// Bytes between two rows of the source.
        bytes_per_row: u32,
        /// Target texture.
        to: usize,
        /// First row.
        row: u32,
        /// Texels of a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// A dispatch in a compute pass.
    Dispatch(Dispatch),
    /// A launch of a CUDA source.
    Launch(Launch),
    /// A call of one of CUDA's libraries.
    Library(LibraryCall),
}

/// A launch of a CUDA source.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The source.
    pub source: usize,
    /// Blocks, in x alone.
    pub blocks: u32,
    /// Names, types and bits of the words of `Params`, the first argument.
    pub params: Vec<(String, &'static str, u32)>,
    /// The other arguments: a pointer each.
    pub arguments: Vec<Argument>,
}

/// What one of CUDA's libraries is called for: a product or a transform of these tensors, as the kernel's formula says.
#[derive(Clone, Debug)]
pub struct LibraryCall {
    /// `cublas` or `cufft`.
    pub library: &'static str,
    /// The kernel that it computes, without what a launch after it adds.
    pub kernel: &'static str,
    /// Sizes of the kernel's dimensions.
    pub dims: Vec<(&'static str, u32)>,
    /// Names, types and bits of the kernel's parameters.
    pub params: Vec<(String, &'static str, u32)>,
    /// The kernel's tensors.
    pub arguments: Vec<Argument>,
}

/// A tensor given to a kernel in CUDA.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The port.
    pub port: &'static str,
    /// Its buffer and its first byte there; `None` stands for a null pointer, where an optional one is left out.
    pub place: Option<(usize, u64)>,
}

/// A dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The shader.
    pub shader: usize,
    /// What is bound at each number.
    pub bindings: Vec<(u32, Bound)>,
    /// Workgroups.
    pub groups: [u32; 3],
    /// The buffer and byte from which the number of workgroups is read instead.
    pub indirect: Option<(usize, u64)>,
    /// Names, WGSL types and bits of the words of the uniform block, for people.
    pub params: Vec<(String, &'static str, u32)>,
}

/// What is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Part of a buffer.
    Buffer {
        /// The buffer.
        index: usize,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A texture.
    Texture(usize),
}

/// What a dispatch left in a buffer that it writes.
#[derive(Clone, Debug)]
pub struct Written {
    /// Number of the binding.
    pub binding: u32,
    /// The bytes of what is bound there.
    pub bytes: Vec<u8>,
}

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a buffer, from a byte on.
    Buffer {
        /// The buffer.
        index: usize,
        /// First byte.
        offset: u64,
    },
    /// A texture.
    Texture(usize),
}

impl Recording {
    /// Where an input or output is; `None` for transients and tensors of other graphs.
    pub fn home(&self, tensor: Tensor) -> Option<Home> {
        self.homes.iter().find(|(id, _)| *id == tensor.id).map(|(_, home)| *home)
    }

    /// The dispatches in order.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.commands.iter().filter_map(|command| match command {
            Command::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        })
    }

    /// Bytes of all first contents.
    pub fn content_bytes(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(|b| b.contents.len()).sum();
        buffers + self.textures.iter().map(|t| t.contents.len()).sum::<usize>()
    }
}
