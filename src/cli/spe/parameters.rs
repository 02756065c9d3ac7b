//! Which code `wgattn spe` looks at: as training begins with it, from a file, or made for a template.

use super::{Args, KindArg};
use crate::arrays::{self, ArrayData};
use crate::cli::Failure;
use crate::numbers::significant;
use crate::position::sine::{PUBLISHED_BIAS, SineSizes};
use crate::position::spec::{DEFAULT_SINUSOIDS, DEFAULT_TAPS, Kind, even_gate, from_file, sides};
use crate::position::synthesis::{
    ConvFit, MOST_FITTED_LAGS, SineFit, conv_by_delta, conv_by_roots, sine_greedy,
};
use crate::position::weights::{Convention, Source, Spelling};
use crate::position::{Code, ConvCode, Encoding, Positions, SineCode, noise};
use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;

/// Dimensions of a head unless told otherwise.
const DEFAULT_WIDTH: u32 = 16;
/// Taps along an axis for a template, unless told otherwise, on a line and on grids: an odd number next to the usual ones, as two real
/// filters of an odd degree need real roots that symmetric templates have not.
pub(super) const FITTED_TAPS: [u32; 2] = [DEFAULT_TAPS[0] + 1, DEFAULT_TAPS[1] + 1];

/// A prescribed template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// A shape of a size in tokens.
    Shape(Shape, f64),
    /// Values by lag from a .npy file.
    File(PathBuf),
}

/// Shapes with the names that commands use; τ = query − key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// e^(−|τ|/size).
    Exponential,
    /// e^(−τ/size) for keys before the query, 0 for those after it.
    Past,
    /// e^(−τ²/(2 size²)).
    Gauss,
    /// 1 at multiples of the size, 0 elsewhere.
    Pulse,
}

impl Shape {
    const ALL: [(&'static str, Self); 4] =
        [("exp", Self::Exponential), ("past", Self::Past), ("gauss", Self::Gauss), ("pulse", Self::Pulse)];

    fn at(self, size: f64, lag: f64) -> f64 {
        match self {
            Self::Exponential => (-lag.abs() / size).exp(),
            Self::Past if lag < 0.0 => 0.0,
            Self::Past => (-lag / size).exp(),
            Self::Gauss => (-0.5 * (lag / size).powi(2)).exp(),
            Self::Pulse => f64::from(u8::from(lag.rem_euclid(size) == 0.0)),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "expected exp:SIZE, past:SIZE, gauss:SIZE or pulse:SIZE with a size in tokens, or a FILE.npy of values by lag";
        if text.ends_with(".npy") {
            return Ok(Self::File(text.into()));
        }
        let (name, size) = text.split_once(':').ok_or_else(|| format!("{text:?}: {FORMS}"))?;
        let shape = Shape::ALL.iter().find(|(known, _)| *known == name);
        let size = size.parse::<f64>().ok().filter(|size| size.is_finite() && *size > 0.0);
        match (shape, size) {
            (Some((_, Shape::Pulse)), Some(size)) if size.fract() != 0.0 => {
                Err(format!("{text:?}: pulses stand whole numbers of tokens apart, such as pulse:16"))
            }
            (Some((_, shape)), Some(size)) => Ok(Self::Shape(*shape, size)),
            _ => Err(format!("{text:?}: {FORMS}")),
        }
    }
}

/// How filters are found for a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SynthesisArg {
    /// Both filters from the roots of the template's polynomial: all lags that filters of P taps reach
    Roots,
    /// One filter is a single tap: P lags in a row, and nothing to solve
    Delta,
}

/// What a fit to a template says of itself.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// The template and the lags, in words.
    pub(super) target: String,
    /// How far the code's template is from it, relative.
    pub(super) residual: f64,
    /// √(v_q v_k)/max|P|.
    pub(super) price: f64,
}

/// The code and the positions that it is looked at on.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) encoding: Encoding,
    pub(super) positions: Positions,
    pub(super) fit: Option<Fit>,
    pub(super) notices: Vec<String>,
}

impl Subject {
    /// The code that the arguments ask for.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        let drawn = sides("--tokens", &args.tokens).ok().filter(|sides| sides.len() <= 2);
        let Some(sides) = drawn else {
            return Err(Failure(format!(
                "--tokens {}: expected a line such as 128 or a grid such as 16x16, which can be drawn",
                args.tokens
            )));
        };
        let positions = Positions::grid(&sides)?;
        refuse_other_kind(args)?;
        let mut notices = Vec::new();
        let (mut encoding, fit) = match (&args.params, &args.template) {
            (Some(path), _) => {
                let (read, note) = of_file(args, path)?;
                notices.extend(note);
                (read, None)
            }
            (None, Some(target)) => {
                let (code, fit) = fitted(args, target, &positions, &mut notices)?;
                (Encoding::new(code, None)?, Some(fit))
            }
            (None, None) => (Encoding::new(initial(args, positions.axes())?, None)?, None),
        };
        if encoding.code().axes() != positions.axes() {
            return Err(Failure(format!(
                "--tokens {}: the code's positions have {} and the tokens {}; {}",
                args.tokens,
                axes(encoding.code().axes()),
                axes(positions.axes()),
                other_axes(args, encoding.code().axes(), positions.axes()),
            )));
        }
        if let Some(share) = args.gate {
            if encoding.gate().is_some() {
                return Err(Failure(
                    "--gate: the file has a gate of its own; leave out --gate or --gate-prefix".into(),
                ));
            }
            let (heads, width) = (encoding.code().heads(), encoding.code().width());
            encoding = Encoding::new(encoding.code().clone(), even_gate(heads, width, share)?)?;
        }
        Ok(Self { encoding, positions, fit, notices })
    }
}

/// What to do about a code on other axes than the tokens'.
fn other_axes(args: &Args, code: usize, tokens: usize) -> String {
    let tokens_like = ["--tokens 128", "--tokens 16x16"];
    let grid = match tokens_like.get(code - 1) {
        Some(tokens) => format!("give {tokens}"),
        None => "only codes on one or two axes are drawn".into(),
    };
    match (args.kind, &args.params, &args.template) {
        (KindArg::Sine, Some(_), _) => format!("sinusoids in files stand on a line: {grid}"),
        (KindArg::Conv, Some(_), _) => format!("the file's filters have {}: {grid}", axes(code)),
        (_, None, Some(Target::File(_))) => format!("the template is on {}: {grid}", axes(code)),
        _ => format!("{grid}, or taps for each axis, such as --taps {}", ["16", "8x8"][tokens.min(2) - 1]),
    }
}

fn axes(count: usize) -> String {
    crate::words::counted(count, "axis", "axes")
}

impl Args {
    fn heads(&self) -> u32 {
        self.heads.unwrap_or(1)
    }

    fn width(&self) -> u32 {
        self.dim.unwrap_or(DEFAULT_WIDTH)
    }

    fn sinusoids(&self) -> u32 {
        self.sinusoids.unwrap_or(DEFAULT_SINUSOIDS)
    }

    fn taps(&self, axes: usize) -> Result<Vec<u32>, Failure> {
        match &self.taps {
            Some(text) => Ok(sides("--taps", text)?),
            None => {
                let usual = if self.template.is_some() { FITTED_TAPS } else { DEFAULT_TAPS };
                Ok(vec![usual[usize::from(axes > 1)]; axes])
            }
        }
    }
}

/// What is said of options of a file where there is none.
const NEEDS_PARAMS: &str = "says how a file is read; add --params FILE, or leave it out";

/// Refuses what the kind has not, and what a file says itself.
fn refuse_other_kind(args: &Args) -> Result<(), Failure> {
    let file = args.params.is_some();
    let fit = args.template.is_some();
    let delta_by_itself = matches!(args.template, Some(Target::File(_)));
    let (sine, conv) = (args.kind == KindArg::Sine, args.kind == KindArg::Conv);
    let cases: [(&str, bool, bool, &str); 17] = [
        (
            "--sinusoids",
            args.sinusoids.is_some(),
            conv,
            "is for `spe sine`; leave it out, or use --taps, which filters have",
        ),
        (
            "--bias",
            args.bias.is_some(),
            conv,
            "is for `spe sine`, whose frequencies begin with it; leave it out",
        ),
        (
            "--taps",
            args.taps.is_some(),
            sine,
            "is for `spe conv`; leave it out, or use --sinusoids, which waves have",
        ),
        (
            "--synthesis",
            args.synthesis.is_some(),
            sine,
            "is for `spe conv`; leave it out: cosines are fitted one after the other",
        ),
        (
            "--synthesis",
            args.synthesis.is_some(),
            !fit,
            "needs a template to find filters for; add --template, such as gauss:3",
        ),
        (
            "--bias",
            args.bias.is_some(),
            fit,
            "has no meaning with --template, which chooses frequencies; leave one of the two out",
        ),
        (
            "--init",
            args.init.is_some(),
            fit,
            "has no meaning with --template: nothing is drawn but the noise; leave it out, or use --seed",
        ),
        (
            "--taps",
            args.taps.is_some(),
            delta_by_itself,
            "has no meaning with values from a file: their number says it; leave it out",
        ),
        (
            "--sinusoids",
            args.sinusoids.is_some(),
            file,
            "has no meaning with --params: the file says it; leave it out",
        ),
        (
            "--bias",
            args.bias.is_some(),
            file,
            "has no meaning with --params: the file has the frequencies; leave it out",
        ),
        ("--taps", args.taps.is_some(), file, "has no meaning with --params: the file says it; leave it out"),
        ("--dim", args.dim.is_some(), file, "has no meaning with --params: the file says it; leave it out"),
        (
            "--init",
            args.init.is_some(),
            file,
            "has no meaning with --params: nothing is drawn but the noise; leave it out, or use --seed",
        ),
        (
            "--gate",
            args.gate.is_some(),
            args.gate_prefix.is_some(),
            "is one gate and --gate-prefix another; leave out one of the two",
        ),
        ("--prefix", args.prefix.is_some(), !file, NEEDS_PARAMS),
        ("--gate-prefix", args.gate_prefix.is_some(), !file, NEEDS_PARAMS),
        ("--convention", args.convention.is_some(), !file, NEEDS_PARAMS),
    ];
    match cases.iter().find(|(_, given, wrong, _)| *given && *wrong) {
        None => Ok(()),
        Some((flag, _, _, why)) => Err(Failure(format!("{flag} {why}"))),
    }
}

fn of_file(args: &Args, path: &std::path::Path) -> Result<(Encoding, Option<String>), Failure> {
    let source = Source {
        prefix: args.prefix.clone().unwrap_or_default(),
        gate_prefix: args.gate_prefix.clone(),
        heads: args.heads,
        spelling: Spelling::Flags,
        ..Source::of(args.convention.unwrap_or(Convention::PYTORCH))
    };
    let kind = match args.kind {
        KindArg::Sine => Kind::Sine,
        KindArg::Conv => Kind::Conv,
    };
    let (read, note) = from_file(path, kind, &source, args.heads())?;
    // A gate says how many heads its filters have.
    if let Some(heads) = args.heads.filter(|heads| *heads != read.code().heads()) {
        return Err(Failure(format!(
            "--heads {heads}: {} has {}; leave --heads out",
            path.display(),
            crate::words::counted(read.code().heads(), "head", "heads")
        )));
    }
    Ok((read, note))
}

/// As training begins.
fn initial(args: &Args, axes: usize) -> Result<Code, Failure> {
    let (heads, width, seed) = (args.heads(), args.width(), args.init.unwrap_or(0));
    Ok(match args.kind {
        KindArg::Sine => {
            let sizes = SineSizes { heads, width, sinusoids: args.sinusoids(), axes: axes as u32 };
            SineCode::init(sizes, args.bias.unwrap_or(PUBLISHED_BIAS), seed)?.into()
        }
        KindArg::Conv => ConvCode::init(heads, width, &args.taps(axes)?, seed)?.into(),
    })
}

/// Values by lag of a file: one or two axes of odd length, lag 0 in the middle.
fn values(path: &std::path::Path) -> Result<(Vec<u32>, Vec<f64>), Failure> {
    let arrays = arrays::read(path)?;
    let wrong = |got: String| {
        Failure(format!(
            "--template {}: expected f32 or f64 values [lags] or [lags, lags], as many before lag 0 as after it; got {got}",
            path.display()
        ))
    };
    let array = arrays.get(arrays::NPY_NAME).ok_or_else(|| wrong("no array".into()))?;
    let numbers: Vec<f64> = match &array.data {
        ArrayData::F32(x) => x.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::F64(x) => x.clone(),
        other => return Err(wrong(other.dtype().into())),
    };
    let odd = array.shape.iter().all(|side| side % 2 == 1 && *side < 1 << 16);
    if !odd || !(1..=2).contains(&array.shape.len()) {
        return Err(wrong(format!("shape {:?}", array.shape)));
    }
    if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
        return Err(wrong(format!("{} at element {at}", numbers[at])));
    }
    Ok((array.shape.iter().map(|side| *side as u32).collect(), numbers))
}

/// A code whose template is the prescribed one, the same in all heads and dimensions.
fn fitted(
    args: &Args,
    target: &Target,
    positions: &Positions,
    notices: &mut Vec<String>,
) -> Result<(Code, Fit), Failure> {
    let (heads, width) = (args.heads(), args.width());
    noise::check_channels(heads, width)?;
    let channels = (heads * width) as usize;
    match args.kind {
        KindArg::Sine => {
            let values = line(args, target, positions, notices)?;
            let fit = sine_greedy(&values, args.sinusoids())?;
            let reach = (values.len() / 2) as i64;
            let told =
                Fit { target: lags(args, &[(-reach, reach)]), residual: fit.residual, price: fit.price };
            Ok((SineFit::code(&vec![fit; channels], heads, width)?.into(), told))
        }
        KindArg::Conv => {
            let fit = filters(args, target, positions.axes())?;
            // A single tap in the middle is as many lags in a row as there are taps, one more after lag 0 where they are even.
            let reach =
                fit.taps.iter().map(|p| i64::from(*p)).map(|p| match by_single_tap(args, target, &fit) {
                    true => (p / 2 - (p - 1), p / 2),
                    false => (1 - p, p - 1),
                });
            let reach: Vec<(i64, i64)> = reach.collect();
            let told = Fit { target: lags(args, &reach), residual: fit.residual, price: fit.price };
            Ok((ConvFit::code(&vec![fit; channels], heads, width)?.into(), told))
        }
    }
}

impl Args {
    fn synthesis(&self) -> SynthesisArg {
        self.synthesis.unwrap_or(SynthesisArg::Roots)
    }
}

/// Whether filters are found with one of them a single tap: where that is asked for, and for grids from a file.
fn by_single_tap(args: &Args, target: &Target, fit: &ConvFit) -> bool {
    let grid_of_file = matches!(target, Target::File(_)) && fit.taps.len() > 1;
    args.synthesis() == SynthesisArg::Delta || grid_of_file
}

/// The template in words with the lags that it is prescribed on, from the least to the greatest along each axis.
fn lags(args: &Args, reach: &[(i64, i64)]) -> String {
    let target = match &args.template {
        Some(Target::Shape(shape, size)) => {
            let name = Shape::ALL.iter().find(|(_, known)| known == shape).map_or("", |(name, _)| name);
            format!("{name}:{size}")
        }
        Some(Target::File(path)) => path.display().to_string(),
        None => String::new(),
    };
    let signed = |lag: i64| if lag < 0 { format!("−{}", -lag) } else { lag.to_string() };
    let reach: Vec<String> = reach
        .iter()
        .map(|&(from, to)| if from == to { signed(from) } else { format!("{}…{}", signed(from), signed(to)) })
        .collect();
    let word = if reach.len() == 1 && !reach[0].contains('…') { "lag" } else { "lags" };
    format!("{target} on {word} {}", reach.join(" × "))
}

/// The target of waves, which stand on a line.
fn line(
    args: &Args,
    target: &Target,
    positions: &Positions,
    notices: &mut Vec<String>,
) -> Result<Vec<f64>, Failure> {
    let refused = || {
        Failure(
            "--template: cosines are fitted along a line; use --tokens 128, or `spe conv` for grids".into(),
        )
    };
    if positions.axes() > 1 {
        return Err(refused());
    }
    match target {
        Target::File(path) => {
            let (sides, values) = values(path)?;
            if sides.len() > 1 { Err(refused()) } else { Ok(values) }
        }
        Target::Shape(shape, size) => {
            let wanted = positions.tokens() - 1;
            let reach = wanted.min(MOST_FITTED_LAGS / 2);
            if reach < wanted {
                notices.push(format!(
                    "the template is fitted on lags −{reach}…{reach} of −{wanted}…{wanted} (--tokens {})",
                    args.tokens
                ));
            }
            let reach = reach as i64;
            Ok((-reach..=reach).map(|lag| shape.at(*size, lag as f64)).collect())
        }
    }
}

/// Filters for the target: along a line by roots, on a grid as a product of lines, and by a single tap for anything.
fn filters(args: &Args, target: &Target, axes: usize) -> Result<ConvFit, Failure> {
    match target {
        Target::File(path) => {
            let (sides, values) = values(path)?;
            if sides.len() == 1 && args.synthesis() == SynthesisArg::Roots {
                return Ok(conv_by_roots(&values)?);
            }
            if sides.len() > 1 && args.synthesis == Some(SynthesisArg::Roots) {
                return Err(Failure(
                    "--synthesis roots: templates from a file are factored along a line; use delta on a grid"
                        .into(),
                ));
            }
            let middle: Vec<u32> = sides.iter().map(|side| side / 2).collect();
            // P(τ) from the lag's place around the middle.
            let at = |lag: [i64; 3]| {
                let place = |axis: usize| (lag[axis] + i64::from(middle[axis])) as usize;
                let index =
                    (0..sides.len()).fold(0, |index, axis| index * sides[axis] as usize + place(axis));
                values[index]
            };
            Ok(conv_by_delta(&sides, &middle, at)?)
        }
        Target::Shape(shape, size) => {
            let taps = args.taps(axes)?;
            if args.synthesis() == SynthesisArg::Delta {
                let middle: Vec<u32> = taps.iter().map(|p| p / 2).collect();
                let used = taps.len();
                let product =
                    |lag: [i64; 3]| lag[..used].iter().map(|l| shape.at(*size, *l as f64)).product();
                return Ok(conv_by_delta(&taps, &middle, product)?);
            }
            let mut all: Option<ConvFit> = None;
            for p in taps {
                let reach = i64::from(p) - 1;
                let values: Vec<f64> = (-reach..=reach).map(|lag| shape.at(*size, lag as f64)).collect();
                let fit = conv_by_roots(&values)?;
                all = Some(all.map_or_else(|| fit.clone(), |before| before.times(&fit)));
            }
            all.ok_or_else(|| Failure("--taps: expected one number per axis".into()))
        }
    }
}

/// What a fit is told as.
pub(super) fn told(fit: &Fit) -> String {
    format!(
        "{}: residual {}, noise price {}",
        fit.target,
        significant(fit.residual, 2),
        significant(fit.price, 3)
    )
}
