//! What the embedding demos share: the attention map of a photograph, from the host's texture to the host's texture.
//!
//! photograph → linear light → OKLab → patches = queries = keys → row of the approximate attention of one query →
//! colours. The engine reads the photograph in place and writes the map in place; moving the query or changing λ only
//! changes inputs.

use std::process::ExitCode;
use wgattn::attention::{Attention, Masks};
use wgattn::backend::Program as _;
use wgattn::backend::wgpu::{WgpuBackend, WgpuProgram};
use wgattn::graph::Graph;
use wgattn::kernels::image::{colormap, oklab, patchify, to_linear};
use wgattn::kernels::laplacian::pool_tokens;
use wgattn::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use wgattn::vision::image::Photo;
use wgattn::vision::palette::Palette;
use wgattn::wgpu;

/// Errors of the demos: the engine's and the window system's.
pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Longest side of the photograph as it is shown.
const LONGEST_SIDE: u32 = 600;

/// Pixels from one token to the next.
const STRIDE: u32 = 4;

/// Side of a token's patch, in pixels.
const PATCH: u32 = 6;

/// λ at the start, in the units of ‖x − y‖₁ between two patches of OKLab colours.
pub(crate) const START_LAMBDA: f32 = 6.0;

/// What both demos take: `[IMAGE] [--frames N] [--screenshot FILE]`.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The photograph.
    pub(crate) image: String,
    /// Frames after which the window closes; `None` = when the user closes it.
    pub(crate) frames: Option<u32>,
    /// Where the last of these frames is saved.
    pub(crate) screenshot: Option<String>,
}

impl Options {
    /// Reads the command line.
    ///
    /// Errors: an option without its value, an unknown option, a screenshot without a number of frames.
    pub(crate) fn from_args() -> Result<Self, AnyError> {
        let mut options = Self {
            image: concat!(env!("CARGO_MANIFEST_DIR"), "/assets/coffee.png").into(),
            frames: None,
            screenshot: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--frames" => options.frames = Some(value()?.parse()?),
                "--screenshot" => options.screenshot = Some(value()?),
                unknown if unknown.starts_with("--") => {
                    return Err(format!(
                        "unknown option {unknown}; there are --frames N and --screenshot FILE"
                    )
                    .into());
                }
                _ => options.image = arg,
            }
        }
        if options.screenshot.is_some() && options.frames.is_none() {
            return Err("--screenshot saves the last of --frames N; give both".into());
        }
        Ok(options)
    }
}

/// What `main` returns: on an error one line on stderr and an exit code that is not 0.
pub(crate) fn report(result: Result<(), AnyError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The photograph as a texture of display bytes that a host would have anyway.
///
/// Errors: a file that cannot be read.
pub(crate) fn load_photo(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    path: &str,
) -> Result<wgpu::Texture, AnyError> {
    let picture = Photo::open(path)?.display(LONGEST_SIDE).picture;
    let pixels: Vec<u8> = picture.pixels().flat_map(|p| [p.0[0], p.0[1], p.0[2], 255]).collect();
    let texture =
        texture(device, "photograph", picture.width(), picture.height(), wgpu::TextureUsages::COPY_DST);
    let layout = wgpu::TexelCopyBufferLayout {
        offset: 0,
        bytes_per_row: Some(4 * picture.width()),
        rows_per_image: None,
    };
    queue.write_texture(texture.as_image_copy(), &pixels, layout, texture.size());
    Ok(texture)
}

/// The texture for the map of a photograph: one pixel per token.
pub(crate) fn map_texture(device: &wgpu::Device, photo: &wgpu::Texture) -> wgpu::Texture {
    let (rows, cols) = grid(photo);
    texture(device, "attention map", cols, rows, wgpu::TextureUsages::STORAGE_BINDING)
}

fn grid(photo: &wgpu::Texture) -> (u32, u32) {
    ((photo.height() / STRIDE).max(1), (photo.width() / STRIDE).max(1))
}

fn texture(
    device: &wgpu::Device,
    label: &str,
    width: u32,
    height: u32,
    usage: wgpu::TextureUsages,
) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: Some(label),
        size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: usage | wgpu::TextureUsages::TEXTURE_BINDING,
        view_formats: &[],
    })
}

/// A compiled map that can be encoded into anybody's frame.
#[derive(Debug)]
pub(crate) struct LiveMap {
    program: WgpuProgram,
    cells: Tensor,
    lambda: Tensor,
    rows: u32,
    cols: u32,
}

impl LiveMap {
    /// Compiles the map of `photo` into `map` (from [`map_texture`]).
    ///
    /// Errors: a picture that is too large or too small for the device or the landmarks.
    pub(crate) fn new(
        backend: &WgpuBackend,
        photo: &wgpu::Texture,
        map: &wgpu::Texture,
    ) -> wgattn::Result<Self> {
        let (rows, cols) = grid(photo);
        let tokens = rows * cols;
        let mut graph = Graph::new("live map");
        let pixels = graph.input("pixels", [photo.height(), photo.width()], DType::Rgba8);
        let cells = graph.input("query cell", [1, 5], DType::U32);
        let lambda = graph.input("lambda", [1], DType::F32);

        let linear = to_linear::record(&mut graph, "linear light", pixels)?;
        let lab = oklab::record(&mut graph, "OKLab", linear)?;
        let patches = patchify::Params {
            patch_size: PATCH,
            stride: STRIDE,
            grid_cols: cols,
            first_token: 0,
            first_row: 0,
        };
        let keys = patchify::record(&mut graph, "patches", lab, tokens, patches)?;
        // The query is the "mean" over a cell of one token.
        let query = graph.transient("query", [1, 1, 1, keys.dim(3)], DType::F32);
        let exists = graph.transient("query exists", [1, 1, 1], DType::U32);
        let args = [Some(keys), None, Some(cells), None, Some(query), Some(exists)];
        graph.pass(&pool_tokens::SPEC, &pool_tokens::Params { grid_cols: cols }, &args)?;

        let attention = Attention::default();
        let row =
            attention.record_map(&mut graph, query, (keys, keys), lambda, (rows, cols), Masks::default())?;
        let values = graph.reshape(row.out, [rows, cols])?;
        let colours = graph.constant("colours", HostTensor::new([256], HostData::U32(sequential()))?);
        let picture = colormap::record(&mut graph, "map", values, colours, colormap::Params::default())?;
        graph.output(picture)?;

        let mut program = backend.prepare(&graph)?;
        program.bind_texture(pixels, photo)?;
        program.bind_texture(picture, map)?;
        Ok(Self { program, cells, lambda, rows, cols })
    }

    /// Encodes the map of the query at `at` (0…1 across and down the picture) into the host's frame.
    ///
    /// Errors: a lost device.
    pub(crate) fn encode(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        at: [f32; 2],
        lambda: f32,
    ) -> wgattn::Result<()> {
        let place = |x: f32, size: u32| ((x.clamp(0.0, 1.0) * size as f32) as u32).min(size - 1);
        let (row, col) = (place(at[1], self.rows), place(at[0], self.cols));
        let cell = HostTensor::new(Shape::from([1, 5]), HostData::U32(vec![0, row, row + 1, col, col + 1]))?;
        self.program.write(self.cells, &cell)?;
        self.program.write(self.lambda, &HostTensor::f32([1], vec![lambda])?)?;
        self.program.encode(encoder)
    }

    /// Tokens of the picture.
    pub(crate) fn tokens(&self) -> u32 {
        self.rows * self.cols
    }
}

/// The sequential colour map, packed for [`colormap`].
fn sequential() -> Vec<u32> {
    let colour = |i: u32| {
        let [r, g, b] = Palette::Sequential.colour(f64::from(i) / 255.0);
        u32::from_le_bytes([r, g, b, 255])
    };
    (0..256).map(colour).collect()
}
