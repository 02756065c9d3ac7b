//! `wgattn mask`: the weights that a mask gives to the keys of a clicked query, over a picture or a bare grid.
//!
//! Masks by relative position are read from their table. Rows of masks on graphs are products with Mᵀ on the device, in memory that
//! grows with tokens and edges, so that each pixel may be a token.

use super::on_graph::{AnyMask, weighed_json, weighed_lines};
use super::{Failure, Outcome, keep_input, notice, open_device, print_line};
use crate::arrays::{Array, ArrayData};
use crate::attention::{Mask, MaskedAttention};
use crate::backend::Backend;
use crate::mask::network::{GraphSpec, MadeMask, NetworkMask, Tokens};
use crate::mask::{MaskSpec, RelativeTable};
use crate::source::built_in;
use crate::vision::grid::{DEFAULT_MAX_TOKENS, DEFAULT_STRIDE, MAX_PATCH, TokenGrid};
use crate::vision::image::Photo;
use crate::vision::overlay::{Overlay, OverlayOptions, check_target};
use crate::vision::scene::{Weighed, mask_rows, mask_rows_untimed, token_colours};
use crate::words::counted;
use glam::UVec2;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most weights of a matrix that `--matrix` writes: 1 GiB.
const MOST_WEIGHTS: u64 = 1 << 28;

/// Numbers that a device takes in one go where the matrix of a mask on a graph is asked for.
const GO: usize = 1 << 22;

/// Pixels along the side of a token where there is no picture, unless the picture would be larger than what is drawn.
const CELL: u32 = 8;

/// Side of a picture as it is drawn.
const DRAWN: u32 = 2048;

/// Most tokens along a side where there is no picture.
const MOST_SIDE: u32 = 8192;

/// Arguments of `wgattn mask`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// none, causal, decay:γ[,both], separable:size=…, stencil:RxC,w/w/…[,torus][,causal] or
    /// toeplitz:PROFILE[,size=…][,distance=l1|l2|linf][,torus][,causal] with
    /// PROFILE one of exp, gauss, window, inverse, triangle. Along the edges of a graph: diffusion:t=…[,laplacian=…][,rtol=…],
    /// communicability:t=…, walk:nodes=…,lambda=…,normalise=…[,walks=…,seed=…], pagerank:restart=…, steps:p=…,
    /// tree:rate=… or tree:profile=…,size=… (gauss, window and triangle count steps, the others lengths),
    /// spd:profile=…,size=…[,hops=…]
    mask: AnyMask,
    /// Picture to paint the weights over; `cat` for the built-in photograph
    picture: Option<PathBuf>,
    /// Rows and columns of tokens, in place of a picture
    #[arg(long, value_name = "ROWSxCOLS", value_parser = parse_grid, conflicts_with = "picture")]
    grid: Option<UVec2>,
    /// Clicked pixel X,Y of the picture, or column,row of the grid; may be given again
    #[arg(long, value_parser = super::map::parse_pixel, required = true)]
    at: Vec<UVec2>,
    /// Graph under such a mask: image[:sensitivity=8,reach=8,cut=0], grid4, grid8, torus4, torus8, or a FILE whose nodes are the
    /// tokens, edge lists with [:numbering=zero|one|names,directed,nodes=…] behind it where they need it; a tree takes a FILE's weights as
    /// lengths [default: image]
    #[arg(long)]
    graph: Option<GraphSpec>,
    /// Distance of neighbouring tokens in pixels; 1 makes each pixel a token, as far as --max-tokens allows
    #[arg(long, default_value_t = DEFAULT_STRIDE, conflicts_with = "grid")]
    stride: u32,
    /// Most tokens; larger pictures are reduced first
    #[arg(long, default_value_t = DEFAULT_MAX_TOKENS, conflicts_with = "grid")]
    max_tokens: usize,
    /// Picture to write
    #[arg(long, default_value = "mask.png")]
    out: PathBuf,
    /// Also write the weights as .npy (queries, rows, columns)
    #[arg(long)]
    raw: Option<PathBuf>,
    /// Also write the whole matrix as .npy (queries, keys)
    #[arg(long)]
    matrix: Option<PathBuf>,
    /// Device: auto, cpu, cuda:0, or the index, name or backend of an adapter. It computes the rows of a mask on a graph; for other masks
    /// its costs decide how attention under them would be computed
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Rows and columns of any number above 0.
pub(super) fn parse_cells(text: &str) -> Result<UVec2, String> {
    let wrong = || format!("{text:?}: expected ROWSxCOLS such as 64x64");
    let (rows, cols) = text.split_once('x').ok_or_else(wrong)?;
    let side = |t: &str| t.trim().parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(wrong);
    Ok(UVec2::new(side(cols)?, side(rows)?))
}

fn parse_grid(text: &str) -> Result<UVec2, String> {
    let cells = parse_cells(text)?;
    let drawn = cells.max_element() <= MOST_SIDE;
    drawn.then_some(cells).ok_or_else(|| format!("{text:?}: expected 1 to {MOST_SIDE} rows and columns, which are drawn; `wgattn eval` takes longer lines"))
}

/// A picture of the grid itself: a token to a cell.
fn blank(cells: UVec2, cell: u32) -> Result<Photo, Failure> {
    let size = cells * cell;
    let grey = image::RgbImage::from_fn(size.x, size.y, |x, y| {
        let shade = if (x / cell + y / cell).is_multiple_of(2) { 58 } else { 52 };
        image::Rgb([shade; 3])
    });
    Ok(Photo::from_rgb8("grid", size.x, size.y, grey.into_raw())?)
}

/// Features and value columns for which the way of attention is told.
const WIDTH: u32 = 32;

/// How attention under the mask would be computed: by a scan, or the way that is cheaper on the device.
fn way(args: &Args, mask: &MaskSpec, sides: &[u32]) -> Result<String, Failure> {
    let attention = MaskedAttention::of(Mask::from_spec(mask, sides)?);
    if matches!(attention.mask, Mask::Scan(_)) {
        return Ok("scan, linear in the tokens".into());
    }
    let backend = open_device(&args.device, args.tune)?;
    let plan = backend.device_caps().and_then(|caps| attention.plan(caps, WIDTH, WIDTH));
    Ok(match plan {
        Some(plan) => format!("{plan}, with {WIDTH} features and values, on {}", backend.info().name),
        None => format!("pairs, the definition, on {}", backend.info().name),
    })
}

/// Where rows come from.
enum Source {
    /// A table of relative positions, and how attention under it would be computed.
    Table { table: RelativeTable, way: String },
    /// A mask on a graph, and the device for its products.
    Network { made: MadeMask, graph: GraphSpec, backend: Box<dyn Backend> },
}

impl Source {
    fn of(args: &Args, photo: &Photo, grid: &TokenGrid, sides: [u32; 2]) -> Result<Self, Failure> {
        let (spec, network) = args.mask.on(args.graph.as_ref())?;
        let Some(NetworkMask { spec, graph }) = network else {
            return Ok(Self::Table { table: spec.table(&sides)?, way: way(args, &spec, &sides)? });
        };
        let mask = NetworkMask { spec, graph };
        let backend = open_device(&args.device, args.tune)?;
        // Before a network of millions of nodes is built in vain.
        if let Some(caps) = backend.device_caps() {
            mask.check_room(sides[0], sides[1], caps)?;
        }
        // A bare grid has no colours to tell apart.
        let colours = match (&mask.graph, &args.picture) {
            (GraphSpec::Image { .. }, Some(_)) => {
                Some(token_colours(&photo.working(grid.working_size())?, grid))
            }
            _ => None,
        };
        let tokens = Tokens { rows: grid.rows(), cols: grid.cols(), colours: colours.as_deref() };
        let made = mask.operator(&tokens)?;
        Ok(Self::Network { made, graph: mask.graph, backend })
    }

    /// Rows of the mask one after the other, and how they came to be where a device made them.
    fn rows(&self, queries: &[u32], tokens: u32) -> Result<(Vec<f32>, Option<Weighed>), Failure> {
        match self {
            Self::Table { table, .. } => {
                let row = |i: u32| (0..tokens).map(move |j| table.weight(0, i, j));
                Ok((queries.iter().flat_map(|i| row(*i)).collect(), None))
            }
            Self::Network { made, backend, .. } => {
                let mut weighed = mask_rows(backend.as_ref(), made, queries)?;
                Ok((std::mem::take(&mut weighed.rows).concat(), Some(weighed)))
            }
        }
    }

    /// The whole matrix, as many rows at a time as a device takes.
    fn matrix(&self, tokens: u32) -> Result<Vec<f32>, Failure> {
        let all: Vec<u32> = (0..tokens).collect();
        let mut matrix = Vec::with_capacity(all.len() * all.len());
        let step = (GO / all.len().max(1)).max(1);
        let bar =
            indicatif::ProgressBar::new(all.len().div_ceil(step) as u64).with_message("rows of the matrix");
        for queries in all.chunks(step) {
            match self {
                Self::Network { made, backend, .. } => {
                    matrix.extend(mask_rows_untimed(backend.as_ref(), made, queries)?.concat());
                }
                Self::Table { .. } => matrix.extend(self.rows(queries, tokens)?.0),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(matrix)
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    check_target(&args.out)?;
    [&args.raw, &args.matrix].into_iter().flatten().try_for_each(crate::arrays::check_target)?;
    let results = [Some(&args.out), args.raw.as_ref(), args.matrix.as_ref()];
    for result in results.into_iter().flatten() {
        args.picture.iter().try_for_each(|input| keep_input(input, result))?;
    }
    let (photo, grid, clicks) = match (&args.picture, args.grid) {
        (Some(path), _) => {
            let photo = match path.to_str().is_some_and(built_in::is_meant) {
                true => built_in::photo()?,
                false => Photo::open(path)?,
            };
            let grid =
                TokenGrid::plan(photo.size(), args.stride.clamp(1, MAX_PATCH), args.stride, args.max_tokens)?;
            (photo, grid, args.at.clone())
        }
        (None, Some(cells)) => {
            if let Some(at) = args.at.iter().find(|at| at.cmpge(cells).any()) {
                let (cols, rows) = (cells.x, cells.y);
                return Err(Failure(format!(
                    "--at {},{}: expected a column below {cols} and a row below {rows}, counted from 0",
                    at.x, at.y
                )));
            }
            let cell = (DRAWN / cells.max_element()).clamp(1, CELL);
            let photo = blank(cells, cell)?;
            let grid = TokenGrid::plan(photo.size(), cell, cell, usize::MAX)?;
            (photo, grid, args.at.iter().map(|at| *at * cell + cell / 2).collect())
        }
        (None, None) => {
            return Err(Failure(
                "a picture or a grid is needed: name a picture, or give --grid 64x64".into(),
            ));
        }
    };
    photo.notices().iter().chain(grid.notice().iter()).for_each(notice);
    let (rows, cols) = (grid.rows(), grid.cols());
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let sides = [side(rows), side(cols)];
    let tokens = rows * cols;
    let queries =
        clicks.iter().map(|pixel| Ok(side(grid.token_at(*pixel)?))).collect::<Result<Vec<_>, Failure>>()?;
    if args.matrix.is_some() {
        let count = (tokens as u64).saturating_mul(tokens as u64);
        if count > MOST_WEIGHTS {
            return Err(Failure(format!(
                "--matrix: {tokens} × {tokens} weights are {count}, at most {MOST_WEIGHTS} are written: use fewer tokens, or --raw for single rows"
            )));
        }
    }
    let source = Source::of(args, &photo, &grid, sides)?;
    let (weights, weighed) = source.rows(&queries, side(tokens))?;
    let mut shown = vec![0.0; tokens];
    for line in weights.chunks(tokens) {
        shown.iter_mut().zip(line).for_each(|(sum, w)| *sum += *w / clicks.len() as f32);
    }
    let overlay = Overlay::draw(&photo, &grid, &shown, &clicks, &OverlayOptions::default())?;
    overlay.notices.iter().for_each(notice);
    overlay.save(&args.out)?;
    let write = |path: &PathBuf, shape: Vec<usize>, data: Vec<f32>| -> Outcome {
        let array = Array { shape, data: ArrayData::F32(data) };
        Ok(crate::arrays::write(path, &BTreeMap::from([(crate::arrays::NPY_NAME.to_string(), array)]))?)
    };
    if let Some(path) = &args.raw {
        write(path, vec![clicks.len(), rows, cols], weights.clone())?;
    }
    if let Some(path) = &args.matrix {
        write(path, vec![tokens, tokens], source.matrix(side(tokens))?)?;
    }
    let seen: Vec<usize> =
        weights.chunks(tokens).map(|line| line.iter().filter(|w| **w > 0.0).count()).collect();
    if args.json {
        let (support, attention, graph, device) = match &source {
            Source::Table { table, way } => (Some(table.support().volume()), Some(way), None, None),
            Source::Network { graph, backend, .. } => {
                let info = backend.info();
                let device = json!({ "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver });
                (None, None, Some(graph), Some(device))
            }
        };
        let report = json!({
            "mask": args.mask.to_string(), "rows": rows, "cols": cols, "tokens": tokens,
            "queries": queries, "keys_seen": seen, "keys_in_support": support, "attention": attention,
            "mask_on_graph": weighed.as_ref().map(|w| weighed_json(w, graph)), "device": device,
            "out": args.out.display().to_string(),
        });
        return print_line(&serde_json::to_string_pretty(&report)?);
    }
    print_line(&format!("mask         {}", args.mask))?;
    print_line(&format!("grid         {rows} × {cols} = {}", counted(tokens, "token", "tokens")))?;
    let list: Vec<String> = seen.iter().map(ToString::to_string).collect();
    print_line(&format!("sees         {} of {tokens} keys", list.join(", ")))?;
    match &source {
        Source::Table { way, .. } => print_line(&format!("attention    {way}"))?,
        Source::Network { graph, backend, .. } => {
            print_line(&format!("graph        {graph}"))?;
            for line in weighed.iter().flat_map(weighed_lines) {
                print_line(&format!("             {line}"))?;
            }
            print_line(&format!("device       {}", backend.info().name))?;
        }
    }
    [Some(&args.out), args.raw.as_ref(), args.matrix.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|path| print_line(&format!("             {}", path.display())))
}
