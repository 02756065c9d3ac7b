//! `wgattn mask`: the weights that a mask gives to the keys of a clicked query, over a picture or a bare grid.

use super::{Failure, Outcome, keep_input, notice, open_device, print_line};
use crate::arrays::{Array, ArrayData};
use crate::attention::{Mask, MaskedAttention};
use crate::mask::MaskSpec;
use crate::vision::grid::{DEFAULT_MAX_TOKENS, DEFAULT_STRIDE, MAX_PATCH, TokenGrid};
use crate::vision::image::Photo;
use crate::vision::overlay::{Overlay, OverlayOptions, check_target};
use crate::words::counted;
use glam::UVec2;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most weights of a matrix that `--matrix` writes: 1 GiB.
const MOST_WEIGHTS: u64 = 1 << 28;

/// Pixels along the side of a token where there is no picture.
const CELL: u32 = 8;

/// Most tokens along a side where there is no picture.
const MOST_SIDE: u32 = 8192;

/// Arguments of `wgattn mask`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// none, causal, decay:γ[,both], separable:size=…, stencil:RxC,w/w/…[,torus][,causal] or
    /// toeplitz:PROFILE[,size=…][,distance=l1|l2|linf][,torus][,causal] with
    /// PROFILE one of exp, gauss, window, inverse, triangle
    mask: MaskSpec,
    /// Picture to paint the weights over
    picture: Option<PathBuf>,
    /// Rows and columns of tokens, in place of a picture
    #[arg(long, value_name = "ROWSxCOLS", value_parser = parse_grid, conflicts_with = "picture")]
    grid: Option<UVec2>,
    /// Clicked pixel X,Y of the picture, or column,row of the grid; may be given again
    #[arg(long, value_parser = super::map::parse_pixel, required = true)]
    at: Vec<UVec2>,
    /// Distance of neighbouring tokens in pixels
    #[arg(long, default_value_t = DEFAULT_STRIDE)]
    stride: u32,
    /// Most tokens; larger pictures are reduced first
    #[arg(long, default_value_t = DEFAULT_MAX_TOKENS)]
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
    /// Whose costs decide how attention under the mask would be computed: auto, cpu, or the index, name or backend of an adapter
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn parse_grid(text: &str) -> Result<UVec2, String> {
    let wrong = || format!("{text:?}: expected ROWSxCOLS such as 64x64");
    let (rows, cols) = text.split_once('x').ok_or_else(wrong)?;
    let side = |t: &str| {
        let n = t.trim().parse::<u32>().map_err(|_| wrong())?;
        let drawn = (1..=MOST_SIDE).contains(&n);
        drawn.then_some(n).ok_or_else(|| format!("{text:?}: expected 1 to {MOST_SIDE} rows and columns, which are drawn {CELL} pixels wide; `wgattn eval` takes longer lines"))
    };
    Ok(UVec2::new(side(cols)?, side(rows)?))
}

/// A picture of the grid itself: a token to a cell.
fn blank(cells: UVec2) -> Result<Photo, Failure> {
    let size = cells * CELL;
    let grey = image::RgbImage::from_fn(size.x, size.y, |x, y| {
        let shade = if (x / CELL + y / CELL).is_multiple_of(2) { 58 } else { 52 };
        image::Rgb([shade; 3])
    });
    Ok(Photo::from_rgb8("grid", size.x, size.y, grey.into_raw())?)
}

/// Features and value columns for which the way of attention is told.
const WIDTH: u32 = 32;

/// How attention under the mask would be computed: by a scan, or the way that is cheaper on the device.
fn way(args: &Args, sides: &[u32]) -> Result<String, Failure> {
    let attention = MaskedAttention::of(Mask::from_spec(&args.mask, sides)?);
    if matches!(attention.mask, Mask::Scan(_)) {
        return Ok("scan, linear in the tokens".into());
    }
    let backend = open_device(&args.device)?;
    let plan = backend.device_caps().and_then(|caps| attention.plan(caps, WIDTH, WIDTH));
    Ok(match plan {
        Some(plan) => format!("{plan}, with {WIDTH} features and values, on {}", backend.info().name),
        None => format!("pairs, the definition, on {}", backend.info().name),
    })
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
            let photo = Photo::open(path)?;
            let grid =
                TokenGrid::plan(photo.size(), args.stride.min(MAX_PATCH), args.stride, args.max_tokens)?;
            (photo, grid, args.at.clone())
        }
        (None, Some(cells)) => {
            let photo = blank(cells)?;
            let grid = TokenGrid::plan(photo.size(), CELL, CELL, usize::MAX)?;
            if let Some(at) = args.at.iter().find(|at| at.cmpge(cells).any()) {
                let (cols, rows) = (cells.x, cells.y);
                return Err(Failure(format!(
                    "--at {},{}: expected a column below {cols} and a row below {rows}, counted from 0",
                    at.x, at.y
                )));
            }
            (photo, grid, args.at.iter().map(|at| *at * CELL + CELL / 2).collect())
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
    let table = args.mask.table(&sides)?;
    let way = way(args, &sides)?;
    let tokens = rows * cols;
    let row = |token: usize| {
        (0..tokens).map(move |key| (side(token), side(key))).map(|(i, j)| table.weight(0, i, j))
    };
    let mut weights = Vec::with_capacity(clicks.len() * tokens);
    for pixel in &clicks {
        weights.extend(row(grid.token_at(*pixel)?));
    }
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
        let count = (tokens as u64).saturating_mul(tokens as u64);
        if count > MOST_WEIGHTS {
            return Err(Failure(format!(
                "--matrix: {tokens} × {tokens} weights are {count}, at most {MOST_WEIGHTS} are written: use fewer tokens, or --raw for single rows"
            )));
        }
        write(path, vec![tokens, tokens], (0..tokens).flat_map(row).collect())?;
    }
    let support = table.support();
    let seen: Vec<usize> =
        weights.chunks(tokens).map(|line| line.iter().filter(|w| **w > 0.0).count()).collect();
    if args.json {
        let report = json!({
            "mask": args.mask.to_string(), "rows": rows, "cols": cols, "tokens": tokens,
            "queries": clicks.iter().map(|p| grid.token_at(*p).ok()).collect::<Vec<_>>(),
            "keys_seen": seen, "keys_in_support": support.volume(), "attention": way,
            "out": args.out.display().to_string(),
        });
        return print_line(&serde_json::to_string_pretty(&report)?);
    }
    print_line(&format!("mask         {}", args.mask))?;
    print_line(&format!("grid         {rows} × {cols} = {}", counted(tokens, "token", "tokens")))?;
    let list: Vec<String> = seen.iter().map(ToString::to_string).collect();
    print_line(&format!("sees         {} of {tokens} keys", list.join(", ")))?;
    print_line(&format!("attention    {way}"))?;
    [Some(&args.out), args.raw.as_ref(), args.matrix.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|path| print_line(&format!("             {}", path.display())))
}
