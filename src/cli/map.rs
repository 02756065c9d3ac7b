//! `wgattn map`: the attention of clicked pixels over photographs, and over the frames of videos.

mod clip;

use super::on_graph::{AnyMask, weighed_json, weighed_lines};
use super::{Failure, Outcome, keep_input, notice, open_device, print_line, say};
use crate::arrays::{Array, ArrayData};
use crate::attention::{Attention, FeatureMap, Landmarks, Normalisation};
use crate::backend::{Backend, DeviceKind, Timings};
use crate::graph::human_bytes;
use crate::mask::MaskSpec;
use crate::mask::network::GraphSpec;
use crate::numbers::significant;
use crate::position::spec::EncodingSpec;
use crate::source::built_in;
use crate::vision::image::Photo;
use crate::vision::overlay::{Overlay, OverlayOptions, check_target};
use crate::vision::scene::{
    MapKernel, MapPath, NoTwin, PositionNoise, RowNormalisation, Rows, Scene, SceneOptions,
    WHITENED_TWIN_TOKENS, Weighed, fuse, relative_error, scaled_to_one,
};
use crate::words::{counted, told};
use clap::ValueEnum;
use glam::UVec2;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Heads past this are a slip of the finger: features are fitted per head.
const MOST_HEADS: usize = 64;

/// Arguments of `wgattn map`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Photographs, folders of photographs, glob patterns; videos, animations, or numbered frames such as shot%04d.png; `cat`
    /// for the built-in photograph
    #[arg(required = true)]
    images: Vec<String>,
    /// Clicked pixel as X,Y; may be given several times
    #[arg(long, required = true, value_parser = parse_pixel, allow_hyphen_values = true)]
    at: Vec<UVec2>,
    /// Similarity of queries and keys: laplacian, gaussian, softmax, or a feature map of linear attention: elu, relu, exp,
    /// favor+[:features=64,seed=0], hyperbolic, … [default: laplacian, elu under a mask, softmax with a position code]
    #[arg(long, value_parser = parse_kernel)]
    kernel: Option<MapKernel>,
    /// Mask over the rows. By relative position: none, causal, decay:γ[,both], separable:size=…, toeplitz:PROFILE[,size=…]
    /// [,distance=l1|l2|linf][,torus][,causal], or stencil:RxC,w/w/…. Along the edges of a graph: diffusion:t=…[,laplacian=…],
    /// communicability:t=…, walk:nodes=…,lambda=…,normalise=…[,walks=…,seed=…], pagerank:restart=…, steps:p=…,
    /// tree:rate=… or tree:profile=…,size=…, spd:profile=…,size=…[,hops=…]
    #[arg(long, default_value = "none")]
    mask: AnyMask,
    /// Graph under such a mask: image[:sensitivity=8,reach=8,cut=0], grid4, grid8, torus4, torus8, or a FILE whose nodes are the
    /// tokens, edge lists with [:numbering=zero|one|names,directed,nodes=…] behind it where they need it [default: image]
    #[arg(long)]
    graph: Option<GraphSpec>,
    /// Code of relative positions on the rows and columns of tokens, which queries and keys go through: spe-sine[:sinusoids=5,
    /// bias=-4] or spe-conv[:taps=8x8], both with realizations=256, gate=γ, seed=0, init=0, mode=icdf|box-muller|rademacher; or of a
    /// file=MODEL.safetensors,convention=pytorch|jax|jax-swapped,prefix=…,gate-prefix=…
    #[arg(long)]
    position: Option<EncodingSpec>,
    /// How rows are computed; auto is exact for few tokens
    #[arg(long, value_enum, default_value_t)]
    path: PathArg,
    /// Landmarks: strided:SIDE, adaptive:SIDE, pooled:CELL, mixed:CELL, segments:COUNT, or given:T,T,…
    #[arg(long, value_parser = parse_landmarks)]
    landmarks: Option<Landmarks>,
    /// Normalisation of the rows
    #[arg(long, value_enum)]
    normalise: Option<NormaliseArg>,
    /// Named settings: default, paper, train, official, official_fixed
    #[arg(long, default_value = "default")]
    preset: String,
    /// Bandwidth λ > 0 for all heads; chosen per head for a mean kernel value of 0.1 if left out
    #[arg(long, allow_negative_numbers = true)]
    lambda: Option<f32>,
    /// ε > 0 on the diagonal of the landmark matrix [default: 0.001, 0.01 in paper and official presets]
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f32>,
    /// Side of a patch in pixels
    #[arg(long, default_value_t = crate::vision::grid::DEFAULT_PATCH)]
    patch: u32,
    /// Distance of neighbouring tokens in pixels
    #[arg(long, default_value_t = crate::vision::grid::DEFAULT_STRIDE)]
    stride: u32,
    /// Most tokens; larger pictures are reduced first
    #[arg(long, default_value_t = crate::vision::grid::DEFAULT_MAX_TOKENS)]
    max_tokens: usize,
    /// Number of heads
    #[arg(long, default_value_t = 4)]
    heads: usize,
    /// Show one head instead of the mean over heads
    #[arg(long)]
    head: Option<usize>,
    /// auto, cpu, cuda:0, or the index, name or backend of an adapter (see `wgattn devices`)
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Frames of a video as FROM..TO, the last one not included; FROM.. and ..TO for the rest and the start
    #[arg(long, value_parser = clip::parse_frames)]
    frames: Option<clip::FrameRange>,
    /// Overlay to write, or the folder for several pictures [default: NAME-attention.png here]; for a video a folder, or a .y4m,
    /// .gif or (with ffmpeg) .mp4 file [default: folder NAME-attention here]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Also write the map as .npy (queries, rows, columns), divided by its largest magnitude; a folder for several pictures
    #[arg(long)]
    raw: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PathArg {
    #[default]
    Auto,
    Nystrom,
    Exact,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NormaliseArg {
    None,
    Sum,
    Row,
    Col,
    Cheap,
    Softpp,
}

/// A kernel as messages name it.
fn kernel_name(kernel: MapKernel) -> String {
    match kernel {
        MapKernel::Laplacian => "laplacian".into(),
        MapKernel::Gaussian => "gaussian".into(),
        MapKernel::Softmax => "softmax".into(),
        MapKernel::Feature(map) => map.to_string(),
    }
}

pub(super) fn parse_pixel(text: &str) -> Result<UVec2, String> {
    let (x, y) = text.split_once(',').ok_or("expected X,Y such as 120,80")?;
    let number =
        |t: &str| t.trim().parse::<u32>().map_err(|e| format!("{t:?}: {e}; expected X,Y such as 120,80"));
    Ok(UVec2::new(number(x)?, number(y)?))
}

/// A kernel by its name; what is no kernel of its own is a feature map.
fn parse_kernel(text: &str) -> Result<MapKernel, String> {
    match text {
        "laplacian" => Ok(MapKernel::Laplacian),
        "gaussian" => Ok(MapKernel::Gaussian),
        "softmax" => Ok(MapKernel::Softmax),
        other if FeatureMap::names().any(|name| Some(name) == other.split(':').next()) => {
            other.parse().map(MapKernel::Feature).map_err(|e: crate::error::Error| e.to_string())
        }
        other => Err(format!(
            "{other:?} is no kernel; expected laplacian, gaussian, softmax, or a feature map: {}",
            FeatureMap::names().collect::<Vec<_>>().join(", ")
        )),
    }
}

fn parse_landmarks(text: &str) -> Result<Landmarks, String> {
    const KINDS: &str = "expected strided:SIDE such as strided:7 for 7 × 7 landmarks, adaptive:SIDE, pooled:CELL, mixed:CELL, \
                         segments:COUNT or given:T,T,…";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let number = |default: u32| match rest {
        "" => Ok(default),
        rest => rest
            .parse::<u32>()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("{rest:?} is not one whole number of 1 or more; {KINDS}")),
    };
    match kind {
        "strided" => Ok(Landmarks::Strided { side: number(7)? }),
        "adaptive" => Ok(Landmarks::Adaptive { side: number(7)? }),
        "pooled" => Ok(Landmarks::Pooled { cell: number(8)? }),
        "mixed" => Ok(Landmarks::Mixed { cell: number(8)? }),
        "segments" => Ok(Landmarks::Segments { count: number(49)? }),
        "given" => {
            let tokens: Result<Vec<u32>, _> = rest.split(',').map(str::parse).collect();
            tokens
                .map(|tokens| Landmarks::Given { tokens })
                .map_err(|_| format!("{rest:?}: expected token numbers such as given:0,17,300"))
        }
        other => Err(format!("{other:?} is no kind of landmarks; {KINDS}")),
    }
}

impl Args {
    /// The kernel that is asked for: under a mask one whose attention is linear, with a position code one of products.
    fn kernel(&self) -> MapKernel {
        let masked = self.mask != AnyMask::Position(MaskSpec::None);
        let usual = match (masked, &self.position) {
            (true, _) => MapKernel::Feature(FeatureMap::Elu1),
            (false, Some(_)) => MapKernel::Softmax,
            (false, None) => MapKernel::Laplacian,
        };
        self.kernel.unwrap_or(usual)
    }

    pub(super) fn options(&self) -> Result<SceneOptions, Failure> {
        let mut attention = Attention::preset(&self.preset)?;
        if let Some(landmarks) = &self.landmarks {
            attention.landmarks = landmarks.clone();
        }
        if let Some(epsilon) = self.epsilon {
            attention.epsilon = epsilon;
        }
        let normalisation = match self.normalise {
            None => RowNormalisation::Map(attention.normalisation),
            Some(NormaliseArg::Sum) => RowNormalisation::Sum,
            Some(NormaliseArg::None) => RowNormalisation::Map(Normalisation::None),
            Some(NormaliseArg::Row) => RowNormalisation::Map(Normalisation::Row),
            Some(NormaliseArg::Col) => RowNormalisation::Map(Normalisation::Col),
            Some(NormaliseArg::Cheap) => RowNormalisation::Map(Normalisation::Cheap),
            Some(NormaliseArg::Softpp) => RowNormalisation::Map(Normalisation::Softpp),
        };
        if !(1..=MOST_HEADS).contains(&self.heads) {
            return Err(Failure(format!(
                "--heads {}: expected 1 to {MOST_HEADS}; leave it out for 4, or take as many as a position code's file has",
                self.heads
            )));
        }
        let (mask, network) = self.mask.on(self.graph.as_ref())?;
        let kernel = self.kernel();
        if !kernel.has_bandwidth() {
            let name = kernel_name(kernel);
            // Under a position code there is no kernel with a bandwidth to go to.
            let remedy = match self.position {
                Some(_) => "leave it out",
                None => "leave it out, or use --kernel laplacian",
            };
            for (flag, given) in
                [("--lambda", self.lambda.is_some()), ("--landmarks", self.landmarks.is_some())]
            {
                if given {
                    return Err(Failure(format!("{flag} has no meaning for the {name} kernel; {remedy}")));
                }
            }
        }
        if let Some(head) = self.head.filter(|h| *h >= self.heads) {
            return Err(Failure(format!(
                "head {head}: expected 0 to {}, or more of them with --heads",
                self.heads.saturating_sub(1)
            )));
        }
        Ok(SceneOptions {
            patch: self.patch,
            stride: self.stride,
            max_tokens: self.max_tokens,
            heads: self.heads,
            kernel,
            mask,
            network,
            position: self.position.clone(),
            path: match self.path {
                PathArg::Auto => MapPath::Auto,
                PathArg::Nystrom => MapPath::Nystrom,
                PathArg::Exact => MapPath::Exact,
            },
            normalisation,
            lambda: self.lambda,
            attention,
            whitened_twin_tokens: WHITENED_TWIN_TOKENS,
            ..SceneOptions::default()
        })
    }
}

/// Files of the arguments: each file, the pictures of each folder, the matches of each pattern.
fn files(images: &[String]) -> Result<Vec<PathBuf>, Failure> {
    const SUFFIXES: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"];
    let is_picture = |path: &PathBuf| {
        let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase());
        path.is_file() && suffix.is_some_and(|s| SUFFIXES.contains(&s.as_str()))
    };
    let mut list = Vec::new();
    for image in images {
        let path = Path::new(image);
        if built_in::is_meant(image) {
            list.push(path.to_path_buf());
            continue;
        }
        let mut found: Vec<PathBuf> = if path.is_dir() {
            let entries =
                std::fs::read_dir(path).map_err(|e| Failure(format!("folder {image}: {}", told(&e))))?;
            entries.filter_map(Result::ok).map(|e| e.path()).filter(is_picture).collect()
        } else if path.exists() || !image.contains(['*', '?', '[']) {
            vec![path.to_path_buf()]
        } else {
            let matches = glob::glob(image).map_err(|e| Failure(format!("pattern {image}: {e}")))?;
            matches.filter_map(Result::ok).filter(is_picture).collect()
        };
        if found.is_empty() {
            return Err(Failure(format!("{image}: no pictures there (png, jpg, webp, gif, bmp, tiff)")));
        }
        found.sort();
        list.append(&mut found);
    }
    Ok(list)
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    let options = args.options()?;
    let files = files(&args.images)?;
    let several = files.len() > 1;
    if several {
        make_folders(args, files.len())?;
    }
    check_targets(args, &files, several)?;
    let backend = open_device(&args.device, args.tune)?;
    let show_progress = several && std::io::stderr().is_terminal();
    let bar = if show_progress {
        indicatif::ProgressBar::new(files.len() as u64)
    } else {
        indicatif::ProgressBar::hidden()
    };
    let mut reports = Vec::new();
    let mut failed = 0;
    for file in &files {
        let outcome = one(args, &options, backend.as_ref(), file, several);
        bar.inc(1);
        match outcome {
            Ok((report, text)) => {
                reports.push(report);
                if !args.json {
                    bar.suspend(|| print_line(&text))?;
                }
            }
            Err(failure) if several => {
                failed += 1;
                bar.suspend(|| say(format_args!("error: {}", failure.0)));
            }
            Err(failure) => return Err(failure),
        }
    }
    bar.finish_and_clear();
    if args.json {
        let all = if several { json!(reports) } else { reports.pop().unwrap_or_default() };
        print_line(&serde_json::to_string_pretty(&all)?)?;
    }
    match failed {
        0 => Ok(()),
        failed => {
            notice(format_args!("{failed} of {} failed", counted(files.len(), "picture", "pictures")));
            Err(Failure(String::new()))
        }
    }
}

/// Makes the folders that the results of several pictures go to.
fn make_folders(args: &Args, count: usize) -> Outcome {
    for (flag, folder) in
        [("--out", &args.out), ("--raw", &args.raw)].into_iter().filter_map(|(f, p)| Some((f, p.as_ref()?)))
    {
        let suffix = folder.extension().map(|s| s.to_string_lossy().to_lowercase()).unwrap_or_default();
        let names_file = image::ImageFormat::from_extension(&suffix).is_some()
            || matches!(suffix.as_str(), "y4m" | "npy" | "npz" | "safetensors")
            || crate::source::ffmpeg::names_video(folder);
        // A folder that is there may be called whatever it likes.
        if !folder.is_dir() && (folder.exists() || names_file) {
            return Err(Failure(format!(
                "{flag} {}: names one file, but there are {count} inputs; name a folder, which is made if it is missing",
                folder.display()
            )));
        }
        std::fs::create_dir_all(folder).map_err(|e| {
            Failure(format!("{flag} {}: cannot make this folder: {}", folder.display(), told(&e)))
        })?;
    }
    Ok(())
}

/// Where a result of `file` goes.
fn target(given: Option<&PathBuf>, several: bool, file: &Path, suffix: &str) -> PathBuf {
    let name =
        format!("{}{suffix}", file.file_stem().map_or_else(|| "picture".into(), |s| s.to_string_lossy()));
    match given {
        Some(folder) if several || folder.is_dir() => folder.join(name),
        Some(path) => path.clone(),
        None => PathBuf::from(name),
    }
}

/// Refuses results that would replace an input or each other.
fn check_targets(args: &Args, files: &[PathBuf], several: bool) -> Outcome {
    let mut taken: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for file in files {
        let out = target(args.out.as_ref(), several, file, "-attention.png");
        let raw = args.raw.as_ref().map(|raw| target(Some(raw), several, file, ".npy"));
        for result in std::iter::once(out).chain(raw) {
            files.iter().try_for_each(|input| keep_input(input, &result))?;
            if let Some(other) = taken.insert(result.clone(), file) {
                return Err(Failure(format!(
                    "{} and {} would both be written to {}; map them apart, or rename one",
                    other.display(),
                    file.display(),
                    result.display()
                )));
            }
        }
    }
    Ok(())
}

/// One picture: its report as JSON and as text.
fn one(
    args: &Args,
    options: &SceneOptions,
    backend: &dyn Backend,
    file: &Path,
    several: bool,
) -> Result<(serde_json::Value, String), Failure> {
    if let Some(source) = crate::source::open_clip(file)? {
        return clip::run(args, options, backend, file, source, several);
    }
    if args.frames.is_some() {
        return Err(Failure(format!("{}: is one picture; --frames is for videos", file.display())));
    }
    let out = target(args.out.as_ref(), several, file, "-attention.png");
    let raw = args.raw.as_ref().map(|raw| target(Some(raw), several, file, ".npy"));
    // What cannot be written is refused before any work, so that one result is not left without the other.
    check_target(&out)?;
    raw.iter().try_for_each(crate::arrays::check_target)?;
    let photo = match file.to_str().is_some_and(built_in::is_meant) {
        true => built_in::photo()?,
        false => Photo::open(file)?,
    };
    let queries = u32::try_from(args.at.len()).map_err(|_| Failure("too many --at".into()))?;
    let mut scene = Scene::new(&photo, options, queries)?;
    // Refused before any work is done on the device.
    for pixel in &args.at {
        scene.grid.token_at(*pixel).map_err(|e| Failure(format!("{}: {e}", file.display())))?;
    }
    scene.notices.iter().for_each(|n| notice(format_args!("{}: {n}", file.display())));
    let mut program = scene.compile(backend)?;
    let weighed = scene.weigh(backend, program.as_mut(), &args.at)?;
    let first = scene.rows(program.as_mut(), &args.at)?;
    // A second, profiled run gives the times without shader compilation, where it costs little.
    let rows = if first.timings.wall_seconds < 5.0 {
        program.set_profiling(true);
        scene.rows(program.as_mut(), &args.at)?
    } else {
        first.clone()
    };
    let noise = scene.position_noise(&args.at)?;
    let Drawn { maps, shown } =
        drawn_map(args, &scene, &rows).map_err(|why| Failure(format!("{}: {why}", file.display())))?;
    if shown.iter().all(|x| *x == 0.0) {
        notice(format_args!("{}: the map is zero everywhere: {}", file.display(), zero_because(&scene)));
    }
    let overlay = Overlay::draw(&photo, &scene.grid, &shown, &args.at, &OverlayOptions::default())?;
    overlay.notices.iter().for_each(|n| notice(format_args!("{}: {n}", file.display())));
    overlay.save(&out)?;
    if let Some(raw) = &raw {
        let shape = vec![maps.len(), scene.grid.rows(), scene.grid.cols()];
        let array = Array { shape, data: ArrayData::F32(maps.concat()) };
        crate::arrays::write(raw, &BTreeMap::from([(crate::arrays::NPY_NAME.to_string(), array)]))?;
    }
    let report = Report {
        args,
        scene: &scene,
        rows: &rows,
        weighed: weighed.as_ref(),
        noise: noise.as_ref(),
        first: &first.timings,
        backend,
        file,
        out: &out,
        raw: raw.as_deref(),
    };
    Ok((report.json(), report.text()))
}

/// Why a map can be zero everywhere.
fn zero_because(scene: &Scene) -> &'static str {
    match scene.kernel {
        kernel if kernel.has_bandwidth() => "λ is too small for this picture",
        MapKernel::Feature(FeatureMap::Relu { .. }) => "no feature of the query is above 0; use --kernel elu",
        _ if scene.mask != MaskSpec::None || scene.network().is_some() => {
            "the mask leaves no key that resembles the query"
        }
        _ => "no key resembles the query",
    }
}

/// Why a map can hold what is no number.
fn not_finite_because(scene: &Scene, rows: &Rows) -> &'static str {
    match scene.kernel {
        _ if rows.status.iter().any(|s| s[3] >= 3.0) => "the landmark matrix is singular; raise --epsilon",
        kernel if kernel.has_bandwidth() => "λ may be too small or too large; choose another",
        _ => "the sum of a row's weights is no number; use --kernel elu",
    }
}

/// The maps of a run.
struct Drawn {
    /// `[query][token]`, each scaled to end at ±1.
    maps: Vec<Vec<f32>>,
    /// Their mean, scaled likewise: several clicks share a picture, and are apart only in the raw file.
    shown: Vec<f32>,
}

/// Fuses heads and scales; the error says why a map is not finite.
fn drawn_map(args: &Args, scene: &Scene, rows: &Rows) -> Result<Drawn, String> {
    let fused: Vec<Vec<f32>> = rows.rows.iter().map(|heads| fuse(heads, args.head)).collect();
    if let Some(bad) = fused.iter().flatten().position(|x| !x.is_finite()) {
        let why = not_finite_because(scene, rows);
        return Err(format!("element {bad} of the map is not finite: {why}"));
    }
    let maps: Vec<Vec<f32>> = fused.iter().map(|m| scaled_to_one(m)).collect();
    let shown = scaled_to_one(&fuse(&maps, None));
    Ok(Drawn { maps, shown })
}

/// Error of each query's fused row against the exact one, or why there is none.
fn relative_errors(scene: &Scene, rows: &Rows, head: Option<usize>) -> Result<Vec<f64>, String> {
    let Some(exact) = &rows.exact else {
        return Err(match scene.no_twin {
            None if scene.position().is_some() => {
                "n/a: there is nothing beside the code's noise, which the lines under `position` tell of"
                    .into()
            }
            None => "the rows are exact".into(),
            Some(NoTwin::NoExactForm) => "n/a: this normalisation has no exact form to compare with".into(),
            Some(NoTwin::TooManyTokens { most }) => format!(
                "n/a: exact rows of this normalisation meet all pairs of tokens, done up to {most} tokens (--max-tokens)"
            ),
        });
    };
    Ok(rows.rows.iter().zip(exact).map(|(a, b)| relative_error(&fuse(a, head), &fuse(b, head))).collect())
}

/// What approximate rows are compared with.
fn exact_name(scene: &Scene) -> &'static str {
    match scene.position() {
        Some(_) => "the row that softmax makes of the same codes",
        None => "the exact row",
    }
}

/// The mask of a scene in words.
fn mask_name(scene: &Scene) -> String {
    scene.network().map_or_else(|| scene.mask.to_string(), |mask| mask.spec.to_string())
}

/// How the rows came to be.
fn path_of(scene: &Scene) -> (&'static str, String) {
    match scene.kernel {
        MapKernel::Feature(map) if scene.position().is_some() => {
            ("features", format!("features of {map}, of queries and keys under the code"))
        }
        MapKernel::Feature(map) => ("features", format!("features of {map}")),
        _ if scene.position().is_some() => {
            ("exact", "all keys, of which each logit is an estimate by the code".into())
        }
        _ if scene.exact => ("exact", "exact".into()),
        _ => ("nystrom", format!("Nyström with {}", counted(scene.landmarks, "landmark", "landmarks"))),
    }
}

/// Device, tokens, path and mask, as lines of a report.
fn setting_lines(backend: &dyn Backend, scene: &Scene) -> Vec<String> {
    let (info, grid) = (backend.info(), &scene.grid);
    let badge = if info.kind == DeviceKind::Software { " · software driver" } else { "" };
    let mut lines = vec![
        format!("  device     {} · {}{badge}", info.name, info.backend),
        format!(
            "  tokens     {} ({} × {}), patch {:.1} px, stride {:.1} px",
            grid.tokens(),
            grid.cols(),
            grid.rows(),
            grid.effective_patch().x,
            grid.effective_stride().x
        ),
        format!("  path       {}", path_of(scene).1),
    ];
    if scene.mask != MaskSpec::None {
        lines.push(format!("  mask       {}", scene.mask));
    }
    if let Some(mask) = scene.network() {
        lines.push(format!("  mask       {} on {}", mask.spec, mask.graph));
    }
    if let Some(code) = scene.position() {
        lines.push(format!("  position   {code}"));
    }
    lines
}

/// The facts of one run, told twice.
struct Report<'a> {
    args: &'a Args,
    scene: &'a Scene,
    rows: &'a Rows,
    weighed: Option<&'a Weighed>,
    noise: Option<&'a PositionNoise>,
    first: &'a Timings,
    backend: &'a dyn Backend,
    file: &'a Path,
    out: &'a Path,
    raw: Option<&'a Path>,
}

impl Report<'_> {
    /// Mean of the exact rows over queries, heads and keys.
    fn mean_kernel(&self) -> Option<f64> {
        if self.scene.normalisation != RowNormalisation::Map(Normalisation::None)
            || !self.scene.kernel.has_bandwidth()
            || self.scene.mask != MaskSpec::None
            || self.scene.network().is_some()
        {
            return None;
        }
        let exact = if self.scene.exact { &self.rows.rows } else { self.rows.exact.as_ref()? };
        let values: Vec<f64> = exact.iter().flatten().flatten().map(|x| f64::from(*x)).collect();
        Some(values.iter().sum::<f64>() / values.len().max(1) as f64)
    }

    /// What is told of a position code's noise.
    fn noise_lines(&self, noise: &PositionNoise) -> Vec<String> {
        let (std, spread) = (significant(noise.logit_std, 3), significant(noise.logit_spread, 3));
        let mut lines = vec![match self.scene.kernel.has_logits() {
            true => format!(
                "a logit's noise is predicted as ±{std}; without it logits spread by ±{spread} over the keys"
            ),
            // Features are taken of queries and keys, not of their product.
            false => format!(
                "q̂·k̂/√R errs by ±{std}, as predicted; without noise it spreads by ±{spread} over the keys"
            ),
        }];
        if let Some(errors) = self.scene.position_errors(noise, self.rows, self.args.head) {
            let list: Vec<String> = errors.iter().map(|e| significant(*e, 3)).collect();
            lines.push(format!("{} off the row with exact relative positions", list.join(" ")));
        }
        lines
    }

    /// The head with the largest residual.
    fn worst_inverse(&self) -> Option<[f32; 4]> {
        self.rows.status.iter().copied().max_by(|a, b| a[0].total_cmp(&b[0]))
    }

    fn json(&self) -> serde_json::Value {
        let info = self.backend.info();
        let grid = &self.scene.grid;
        let (stride, patch) = (grid.effective_stride(), grid.effective_patch());
        let errors = relative_errors(self.scene, self.rows, self.args.head);
        json!({
            "image": self.file.display().to_string(),
            "at": self.args.at.iter().map(|p| [p.x, p.y]).collect::<Vec<_>>(),
            "device": { "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver },
            "tokens": grid.tokens(),
            "grid": { "rows": grid.rows(), "columns": grid.cols() },
            "stride_pixels": [stride.x, stride.y],
            "patch_pixels": [patch.x, patch.y],
            "kernel": kernel_name(self.scene.kernel),
            "mask": mask_name(self.scene),
            "mask_on_graph": self.weighed.map(|w| weighed_json(w, self.scene.network().map(|m| &m.graph))),
            "position": self.noise.zip(self.scene.position()).map(|(noise, code)| json!({
                "code": code.to_string(),
                "realizations": code.realizations,
                "of": if self.scene.kernel.has_logits() { "logits" } else { "products" },
                "logit_std_predicted": noise.logit_std,
                "logit_spread": noise.logit_spread,
                "relative_error_of_exact_positions": self.scene.position_errors(noise, self.rows, self.args.head),
            })),
            "path": path_of(self.scene).0,
            "landmarks": self.scene.landmarks,
            "lambda": self.scene.lambda,
            "mean_kernel_value": self.mean_kernel(),
            "inverse": self.rows.status.iter().map(|s| json!({
                "residual": s[0], "largest_row_sum": s[1], "steps": s[2], "code": s[3],
            })).collect::<Vec<_>>(),
            "relative_error": errors.as_ref().ok(),
            "relative_error_note": errors.as_ref().err(),
            "timing_source": self.rows.timings.source.to_string(),
            "passes": self.rows.timings.steps.iter().map(|s| json!({
                "kernel": s.kernel, "variant": s.variant, "seconds": s.seconds, "cpu_seconds": s.cpu_seconds,
            })).collect::<Vec<_>>(),
            "first_run_seconds": self.first.wall_seconds,
            "memory_bytes": {
                "transient": self.rows.memory.transient,
                "transient_without_sharing": self.rows.memory.transient_unshared,
                "inputs_and_outputs": self.rows.memory.external,
                "staging": self.rows.memory.staging,
            },
            "out": self.out.display().to_string(),
            "raw": self.raw.map(|r| r.display().to_string()),
        })
    }

    fn text(&self) -> String {
        let size = self.scene.grid.photo_size();
        let at: Vec<String> = self.args.at.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
        let mut lines =
            vec![format!("{} ({} × {}) at {}", self.file.display(), size.x, size.y, at.join(" "))];
        lines.extend(setting_lines(self.backend, self.scene));
        if let Some(noise) = self.noise {
            lines.extend(self.noise_lines(noise).iter().map(|line| format!("             {line}")));
        }
        if let Some(weighed) = self.weighed {
            lines.extend(weighed_lines(weighed).iter().map(|line| format!("             {line}")));
        }
        if self.scene.kernel.has_bandwidth() {
            let lambda: Vec<String> = self.scene.lambda.iter().map(|l| significant((*l).into(), 4)).collect();
            let mean = self.mean_kernel().map_or_else(String::new, |m| {
                format!("; mean kernel value of the row {}", significant(m, 3))
            });
            lines.push(format!("  λ          {} per head{mean}", lambda.join(" ")));
        }
        if let Some([residual, _, steps, code]) = self.worst_inverse() {
            let code = match code as u32 {
                0 => "",
                1 => "; Cholesky took over",
                2 => "; Cholesky took over with 10 ε",
                _ => "; FAILED: raise --epsilon",
            };
            lines.push(format!(
                "  inverse    {}, residual {}{code}",
                counted(steps as u32, "Newton–Schulz step", "Newton–Schulz steps"),
                significant(residual.into(), 2)
            ));
        }
        lines.push(match relative_errors(self.scene, self.rows, self.args.head) {
            Ok(errors) => {
                let list: Vec<String> = errors.iter().map(|e| significant(*e, 3)).collect();
                let exact = exact_name(self.scene);
                format!("  error      {} of {exact} (‖approximate − exact‖ / ‖exact‖)", list.join(" "))
            }
            Err(why) => format!("  error      {why}"),
        });
        let steps = &self.rows.timings.steps;
        let total: f64 = steps.iter().map(|s| s.seconds).sum();
        lines.push(match steps.is_empty() {
            true => format!(
                "  time       {:.1} ms with shader compilation, not profiled",
                1e3 * self.first.wall_seconds
            ),
            false => format!(
                "  time       {:.2} ms in {} ({}); first run {:.0} ms with shader compilation",
                1e3 * total,
                counted(steps.len(), "pass", "passes"),
                self.rows.timings.source,
                1e3 * self.first.wall_seconds
            ),
        });
        // One line per kernel and variant, dearest first; the JSON has every pass.
        let mut kinds: Vec<(String, usize, f64, Option<f64>)> = Vec::new();
        for step in steps {
            let name = format!("{}/{}", step.kernel, step.variant);
            match kinds.iter_mut().find(|k| k.0 == name) {
                Some(kind) => {
                    kind.1 += 1;
                    kind.2 += step.seconds;
                    kind.3 = kind.3.zip(step.cpu_seconds).map(|(a, b)| a + b);
                }
                None => kinds.push((name, 1, step.seconds, step.cpu_seconds)),
            }
        }
        kinds.sort_by(|a, b| b.2.total_cmp(&a.2));
        for (name, count, seconds, cpu) in &kinds {
            let cpu = cpu.map_or_else(String::new, |s| format!("  {:>8.2} ms CPU", 1e3 * s));
            let times = if *count > 1 { format!("  × {count}") } else { String::new() };
            lines.push(format!("             {:>8.2} ms{cpu}  {name}{times}", 1e3 * seconds));
        }
        let memory = self.rows.memory;
        lines.push(format!(
            "  memory     {} transient ({} without sharing), {} staging, {} inputs and outputs",
            human_bytes(memory.transient),
            human_bytes(memory.transient_unshared),
            human_bytes(memory.staging),
            human_bytes(memory.external)
        ));
        lines.push(format!("  wrote      {}", self.out.display()));
        if let Some(raw) = self.raw {
            lines.push(format!("             {}", raw.display()));
        }
        lines.join("\n")
    }
}
