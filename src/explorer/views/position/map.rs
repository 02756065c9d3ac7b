//! Maps of the clicked token without a code, with the exact template and with a drawn code, and the noise of their logits.

use super::found::{Error, FEWEST, draw, merged, pieces};
use crate::explorer::position::{Axes, Kernel, Kind, PositionSettings, WIDTH};
use crate::explorer::tokens::Shot;
use crate::numbers::{grouped, significant};
use crate::position::apply::{Side, apply};
use crate::position::{Encoding, Positions};
use crate::vision::features::{FeatureBasis, FeatureOptions};
use std::sync::Arc;

/// Most tokens: codes are drawn on the CPU.
pub(super) const MOST_TOKENS: usize = 4096;

/// Most products of a map: some ten seconds.
const MOST_WORK: f64 = 5e10;

/// Tokens along an axis of the block in which logits are measured, by the number of axes.
const BLOCK: [u32; 2] = [64, 8];

/// Realisations of that measurement, and draws.
const MOST_MEASURED: u32 = 1024;
const DRAWS: u32 = 4;

/// Every how manieth token of the block is a query.
const QUERY_STEP: usize = 5;

/// Question of the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) settings: PositionSettings,
    pub(super) shot: Shot,
    pub(super) heads: usize,
    pub(super) query: u32,
}

/// Answer.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) shot: Shot,
    pub(super) settings: PositionSettings,
    /// Weights without a code, `[token]`.
    pub(super) plain: Result<Vec<f64>, String>,
    /// Weights with the exact template, which only softmax has.
    pub(super) exact: Result<Vec<f64>, String>,
    /// Weights with the drawn code.
    pub(super) coded: Result<Vec<f64>, String>,
    /// Noise of the logits of the row that is shown: measured and by the formula.
    pub(super) noise: [f64; 2],
    /// Spread of the exact logits over the keys.
    pub(super) signal: f64,
    /// Noise of logits among a few tokens, by realisations.
    pub(super) errors: Vec<Error>,
    /// Names these numbers.
    pub(super) number: u64,
}

impl Maps {
    /// Share of the weight that noise puts elsewhere: half the sum of differences from the exact row.
    pub(super) fn moved(&self) -> Option<f64> {
        let (exact, coded) = (self.exact.as_ref().ok()?, self.coded.as_ref().ok()?);
        Some(0.5 * exact.iter().zip(coded).map(|(a, b)| (a - b).abs()).sum::<f64>())
    }
}

/// Features of a picture, `[h, n, d]`.
type Features = Arc<Vec<f64>>;

/// Keys with a code, `[n, r]`.
type Keys = Arc<Vec<f64>>;

/// Keeps what does not depend on the query.
#[derive(Default)]
pub(super) struct Finder {
    features: Option<((Shot, usize), Features)>,
    keys: Option<((PositionSettings, Shot, usize), Keys)>,
    errors: Option<((PositionSettings, Shot, usize), Vec<Error>)>,
    count: u64,
}

impl Finder {
    pub(super) fn answer(
        &mut self,
        asked: &Question,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Maps, String>> {
        match self.maps(asked, go_on) {
            Ok(maps) => maps.map(Ok),
            Err(why) => Some(Err(why)),
        }
    }

    fn maps(&mut self, asked: &Question, go_on: &dyn Fn() -> bool) -> Result<Option<Maps>, String> {
        let told = |e: crate::Error| e.to_string();
        let (settings, shot) = (&asked.settings, &asked.shot);
        // First: what is made of settings out of range is no use.
        let encoding = settings.encoding(true).map_err(told)?;
        if settings.head as usize >= asked.heads {
            return Err(format!(
                "Head {} is not there: the picture's features have {}. Choose another one in the panel.",
                settings.head + 1,
                crate::words::counted(asked.heads, "head", "heads")
            ));
        }
        let n = shot.grid.tokens();
        if n > MOST_TOKENS {
            return Err(format!(
                "{} tokens are too many for this view: up to {}. Choose a larger stride in the panel.",
                grouped(n as f64),
                grouped(MOST_TOKENS as f64)
            ));
        }
        let positions = positions(settings.axes, shot).map_err(told)?;
        let work = work(settings, n);
        if work > MOST_WORK {
            return Err(format!(
                "This code takes {} billion products; up to {} billion are made here. Choose fewer realisations, {}, or a larger \
                 stride.",
                significant(1e-9 * work, 3),
                significant(1e-9 * MOST_WORK, 3),
                if settings.kind == Kind::Sine { "fewer sinusoids" } else { "fewer taps" }
            ));
        }
        let features = self.features(asked)?;
        if !go_on() {
            return Ok(None);
        }
        let width = WIDTH as usize;
        let head = &features[settings.head as usize * n * width..][..n * width];
        let token = |i: usize| &head[i * width..][..width];
        let query = asked.query as usize;
        let Some(keys) = self.keys(asked, &encoding, &positions, head, go_on)? else { return Ok(None) };

        // Logits without the code, exactly, and with it.
        let root = f64::from(WIDTH).sqrt();
        let plain: Vec<f64> = (0..n).map(|j| dot(token(query), token(j)) / root).collect();
        let (mut exact, mut predicted) = (Vec::with_capacity(n), 0.0);
        for j in 0..n {
            if j % 256 == 0 && !go_on() {
                return Ok(None);
            }
            let lag = positions.lag(query, j);
            let logit =
                encoding.logit(0, token(query), token(j), lag, settings.realizations).map_err(told)?;
            exact.push(logit.mean());
            predicted += logit.variance();
        }
        let axes = positions.axes();
        let here = Positions::grid(&vec![1; axes])
            .and_then(|one| one.starting_at(&positions.at(query)[..axes]))
            .map_err(told)?;
        let codes = draw(&encoding, &settings.noise(true, 0), &here, settings.realizations).map_err(told)?;
        let q = apply(&codes, Side::Query, token(query), 1, 1).map_err(told)?;
        let r = settings.realizations as usize;
        let logits: Vec<f64> = keys.chunks(r).map(|k| dot(&q, k) / (r as f64).sqrt()).collect();
        let square: f64 = logits.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum();
        let mean = exact.iter().sum::<f64>() / n as f64;
        let signal = (exact.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64).sqrt();

        let Some(errors) = self.errors(asked, &encoding, &positions, head, go_on)? else { return Ok(None) };
        let (plain, coded) = match feature(settings.kernel) {
            None => (softmax(&plain), softmax(&logits)),
            Some(map) => {
                let line = |q: &[f64], keys: &[f64]| -> Vec<f64> {
                    keys.chunks(q.len())
                        .map(|k| q.iter().zip(k).map(|(q, k)| map(*q) * map(*k)).sum())
                        .collect()
                };
                (over_sum(line(token(query), head)), over_sum(line(&q, &keys)))
            }
        };
        self.count += 1;
        Ok(Some(Maps {
            shot: shot.clone(),
            settings: settings.clone(),
            plain,
            exact: match settings.kernel {
                Kernel::Softmax => softmax(&exact),
                _ => Err("Only softmax has a map with the template itself.".into()),
            },
            coded,
            noise: [(square / n as f64).sqrt(), (predicted / n as f64).sqrt()],
            signal,
            errors,
            number: self.count,
        }))
    }

    /// The picture's features at their own scale, as other kernels of products have them.
    fn features(&mut self, asked: &Question) -> Result<Features, String> {
        let key = (asked.shot.clone(), asked.heads);
        if let Some((known, features)) = &self.features
            && *known == key
        {
            return Ok(Arc::clone(features));
        }
        let grid = &asked.shot.grid;
        let image = asked.shot.photo.working(grid.working_size()).map_err(|e| e.to_string())?;
        let options = FeatureOptions {
            heads: asked.heads,
            head_dim: WIDTH as usize,
            qk_scale: Some(1.0),
            ..FeatureOptions::default()
        };
        let basis = FeatureBasis::fit(&image, grid, &options).map_err(|e| e.to_string())?;
        let features = basis.project(&image, grid).map_err(|e| e.to_string())?;
        let features: Features = Arc::new(features.into_iter().map(f64::from).collect());
        self.features = Some((key, Arc::clone(&features)));
        Ok(features)
    }

    /// All keys with the code.
    fn keys(
        &mut self,
        asked: &Question,
        encoding: &Encoding,
        positions: &Positions,
        head: &[f64],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Keys>, String> {
        let told = |e: crate::Error| e.to_string();
        let key = (of_code(&asked.settings), asked.shot.clone(), asked.heads);
        if let Some((known, keys)) = &self.keys
            && *known == key
        {
            return Ok(Some(Arc::clone(keys)));
        }
        let (noise, r) = (asked.settings.noise(true, 0), asked.settings.realizations);
        let (width, row) = (WIDTH as usize, r as usize);
        let mut keys = Vec::with_capacity(positions.tokens() * row);
        for piece in pieces(positions, width * row).map_err(told)? {
            if !go_on() {
                return Ok(None);
            }
            let codes = draw(encoding, &noise, &piece.positions, r).map_err(told)?;
            let x = &head[piece.tokens.start * width..piece.tokens.end * width];
            keys.extend(apply(&codes, Side::Key, x, 1, piece.tokens.len() as u32).map_err(told)?);
        }
        let keys = Arc::new(keys);
        self.keys = Some((key, Arc::clone(&keys)));
        Ok(Some(keys))
    }

    /// Noise of the logits of the tokens round the middle of the picture. As with templates, one draw of many realisations is many of
    /// few.
    fn errors(
        &mut self,
        asked: &Question,
        encoding: &Encoding,
        positions: &Positions,
        head: &[f64],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Error>>, String> {
        let told = |e: crate::Error| e.to_string();
        // The number of realisations that is set is none of this measurement.
        let settings = PositionSettings { realizations: FEWEST, ..of_code(&asked.settings) };
        let key = (settings, asked.shot.clone(), asked.heads);
        if let Some((known, errors)) = &self.errors
            && *known == key
        {
            return Ok(Some(errors.clone()));
        }
        let axes = positions.axes();
        let (mut sides, mut first) = (vec![0; axes], vec![0; axes]);
        for axis in 0..axes {
            let all = positions.sides()[axis];
            sides[axis] = BLOCK[axes - 1].min(all);
            first[axis] = (all - sides[axis]) / 2;
        }
        let block = Positions::grid(&sides).and_then(|grid| grid.starting_at(&first)).map_err(told)?;
        let cols = positions.sides().last().map_or(1, |&side| side as usize);
        let index = |p: [u32; 3]| match axes {
            1 => p[0] as usize,
            _ => p[0] as usize * cols + p[1] as usize,
        };
        let width = WIDTH as usize;
        let tokens: Vec<usize> = (0..block.tokens()).map(|i| index(block.at(i))).collect();
        let x: Vec<f64> = tokens.iter().flat_map(|t| &head[t * width..][..width]).copied().collect();
        // Keys of one query have its noise in common: several queries tell more.
        let queries = || (0..tokens.len()).step_by(QUERY_STEP);
        let of = |i: usize| &x[i * width..][..width];
        let (mut exact, mut variance) = (Vec::new(), 0.0);
        for i in queries() {
            if !go_on() {
                return Ok(None);
            }
            for j in 0..tokens.len() {
                let lag = positions.lag(tokens[i], tokens[j]);
                let logit = encoding.logit(0, of(i), of(j), lag, 1).map_err(told)?;
                exact.push(logit.mean());
                variance += logit.variance();
            }
        }
        let variance = variance / exact.len() as f64;
        let powers = || (FEWEST.ilog2()..=MOST_MEASURED.ilog2()).map(|power| 1_u32 << power);
        let mut squares: Vec<Vec<f64>> = vec![Vec::new(); powers().count()];
        let row = MOST_MEASURED as usize;
        for draw_number in 0..DRAWS {
            if !go_on() {
                return Ok(None);
            }
            let noise = asked.settings.noise(true, draw_number + 1);
            let codes = draw(encoding, &noise, &block, MOST_MEASURED).map_err(told)?;
            let n = tokens.len() as u32;
            let q = apply(&codes, Side::Query, &x, 1, n).map_err(told)?;
            let k = apply(&codes, Side::Key, &x, 1, n).map_err(told)?;
            // A code of R realisations has the scale of R: one of many is taken for all.
            let factor = f64::from(MOST_MEASURED).sqrt();
            let few = FEWEST as usize;
            let sums = |at: usize| -> Vec<f64> {
                let part = |i: usize| i * row + at * few..i * row + (at + 1) * few;
                let pairs = queries().flat_map(|i| (0..tokens.len()).map(move |j| (i, j)));
                pairs.map(|(i, j)| factor * dot(&q[part(i)], &k[part(j)])).collect()
            };
            let mut blocks: Vec<Vec<f64>> = (0..row / few).map(sums).collect();
            for (realizations, squares) in powers().zip(&mut squares) {
                let mean_square = |block: &Vec<f64>| {
                    let gaps = block.iter().zip(&exact).map(|(sum, x)| sum / f64::from(realizations) - x);
                    gaps.map(|gap| gap * gap).sum::<f64>() / exact.len() as f64
                };
                squares.extend(blocks.iter().map(mean_square));
                blocks = blocks.chunks(2).map(merged).collect();
            }
        }
        let error = |(r, squares): (u32, &Vec<f64>)| Error::of(r, (variance / f64::from(r)).sqrt(), squares);
        let errors: Vec<Error> = powers().zip(&squares).map(error).collect();
        self.errors = Some((key, errors.clone()));
        Ok(Some(errors))
    }
}

/// Settings without those that make no other code.
fn of_code(settings: &PositionSettings) -> PositionSettings {
    PositionSettings { kernel: Kernel::default(), dimension: 0, ..settings.clone() }
}

/// Where the tokens of a picture stand.
fn positions(axes: Axes, shot: &Shot) -> crate::Result<Positions> {
    let [rows, cols] = shot.sides();
    match axes {
        Axes::Picture => Positions::grid(&[rows as u32, cols as u32]),
        Axes::Line => Positions::line((rows * cols) as u32),
    }
}

/// Products that the codes of all keys take.
fn work(settings: &PositionSettings, tokens: usize) -> f64 {
    let each = match settings.kind {
        Kind::Sine => 4.0 * f64::from(settings.sinusoids),
        Kind::Conv => 2.0 * f64::from(settings.taps).powi(settings.axes.count() as i32),
    };
    tokens as f64 * f64::from(WIDTH) * f64::from(settings.realizations) * each
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The feature map of a kernel; `None` for softmax.
fn feature(kernel: Kernel) -> Option<fn(f64) -> f64> {
    match kernel {
        Kernel::Softmax => None,
        Kernel::Elu => Some(|x| if x > 0.0 { x + 1.0 } else { x.exp() }),
        Kernel::Relu => Some(|x| x.max(0.0)),
    }
}

fn softmax(logits: &[f64]) -> Result<Vec<f64>, String> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    over_sum(logits.iter().map(|x| (x - most).exp()).collect())
}

fn over_sum(weights: Vec<f64>) -> Result<Vec<f64>, String> {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        return Ok(weights.into_iter().map(|w| w / sum).collect());
    }
    Err(match sum {
        0.0 => "All weights are 0 here: with ReLU a query may see nothing. Choose another kernel, or another gain.".into(),
        sum => format!("The weights add up to {sum}: choose a smaller gain."),
    })
}

/// The row with the code of a document's settings, for tests of what gives the same.
#[cfg(test)]
pub(in crate::explorer) fn row_of(
    document: &crate::explorer::document::Document,
    photo: crate::vision::image::Photo,
) -> Vec<f64> {
    let compute = &document.settings.compute;
    let grid =
        crate::vision::grid::TokenGrid::plan(photo.size(), compute.patch, compute.stride, compute.max_tokens);
    let shot = Shot { photo: Arc::new(photo), grid: grid.expect("a grid") };
    let query = shot.grid.token_at(document.query.into()).expect("a token") as u32;
    let settings = document.settings.position.clone();
    let question = Question { settings, shot, heads: compute.heads, query };
    let maps = Finder::default().answer(&question, &|| true).expect("nothing stops it");
    maps.expect("it is found").coded.expect("a row")
}
