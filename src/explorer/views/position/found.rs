//! A code's template, exact and as a draw has it, and how far apart the two are by the number of realisations.

use crate::explorer::position::{Axes, Kernel, PositionSettings};
use crate::position::template::{entry_variance, predicted_rmse};
use crate::position::{Code, Codes, Encoding, Noise, Positions, scale};
use std::ops::Range;

/// Lags to each side that are shown of two axes.
const HALF_OF_PICTURE: u32 = 16;

/// Lags to each side that are shown of one axis.
const HALF_OF_LINE: u32 = 64;

/// Positions along an axis among which errors are measured, by the number of axes.
const MEASURED: [u32; 2] = [81, 9];

/// Least and most realisations of the errors.
pub(super) const FEWEST: u32 = 16;
pub(super) const MOST: u32 = 4096;

/// Draws of as many realisations over which errors are averaged.
const DRAWS: u32 = 8;

/// Numbers that codes may hold at once: 64 MiB of both sides.
const PIECE: usize = 1 << 22;

/// What the template depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CodeQuestion(PositionSettings);

impl CodeQuestion {
    pub(super) fn of(settings: &PositionSettings) -> Self {
        // How products become weights makes no other template.
        Self(PositionSettings { kernel: Kernel::default(), ..settings.clone() })
    }
}

/// An error by the number of realisations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Error {
    pub(super) realizations: u32,
    /// By the formula.
    pub(super) predicted: f64,
    /// Root of the mean square over entries and draws.
    pub(super) measured: f64,
    /// Standard error of `measured`; `None` of one draw.
    pub(super) standard_error: Option<f64>,
}

impl Error {
    /// From the mean squares of draws that do not depend on each other.
    pub(super) fn of(realizations: u32, predicted: f64, squares: &[f64]) -> Self {
        let count = squares.len() as f64;
        let mean = squares.iter().sum::<f64>() / count;
        let spread = squares.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1.0);
        let measured = mean.sqrt();
        // Of the root: half the relative error of the square.
        let standard_error = (squares.len() > 1).then(|| (spread / count).sqrt() / (2.0 * measured));
        Self { realizations, predicted, measured, standard_error: standard_error.filter(|e| e.is_finite()) }
    }
}

/// Template of the shown dimension.
#[derive(Debug)]
pub(super) struct Found {
    /// What it was found for.
    pub(super) settings: PositionSettings,
    /// Lags to each side.
    pub(super) half: u32,
    /// P(τ), τ = query − key ascending, `[2·half + 1]` or `[2·half + 1, 2·half + 1]`.
    pub(super) exact: Vec<f64>,
    /// P̂(τ) of one query and its keys.
    pub(super) drawn: Vec<f64>,
    /// Standard deviation of P̂(τ) by the formula.
    pub(super) deviations: Vec<f64>,
    /// Variances of the codes of queries and keys.
    pub(super) variances: [f64; 2],
    /// Errors of the whole covariance of a few positions, by realisations.
    pub(super) errors: Vec<Error>,
    /// Learnable numbers of the shown head.
    pub(super) parameters: u64,
    /// Names these numbers.
    pub(super) number: u64,
}

impl Found {
    /// Lags along an axis.
    pub(super) fn side(&self) -> usize {
        2 * self.half as usize + 1
    }

    /// Places of the lags along the last axis, the other one's being 0.
    pub(super) fn profile(&self) -> Range<usize> {
        let side = self.side();
        match self.settings.axes {
            Axes::Line => 0..side,
            Axes::Picture => self.half as usize * side..(self.half as usize + 1) * side,
        }
    }
}

/// Answers; `None` = told not to go on.
pub(super) fn find(
    question: &CodeQuestion,
    number: u64,
    go_on: &dyn Fn() -> bool,
) -> Option<Result<Found, String>> {
    let CodeQuestion(settings) = question;
    match found(settings, number, go_on) {
        Ok(found) => found.map(Ok),
        Err(why) => Some(Err(why.to_string())),
    }
}

fn found(settings: &PositionSettings, number: u64, go_on: &dyn Fn() -> bool) -> crate::Result<Option<Found>> {
    let encoding = settings.encoding(false)?;
    let (half, sides) = match settings.axes {
        Axes::Picture => (HALF_OF_PICTURE, vec![2 * HALF_OF_PICTURE + 1; 2]),
        Axes::Line => (HALF_OF_LINE, vec![2 * HALF_OF_LINE + 1]),
    };
    let window = Positions::grid(&sides)?;
    let middle = window.tokens() / 2;
    // Keys from the last to the first, for lags from the least to the greatest.
    let keys = || (0..window.tokens()).rev();
    let exact: crate::Result<Vec<f64>> =
        keys().map(|n| encoding.template(0, 0, window.lag(middle, n))).collect();
    let exact = exact?;
    let variances = encoding.variances(0, 0)?;
    let realizations = settings.realizations;
    let noise = settings.noise(false, 0);
    let at = window.at(middle);
    let here = Positions::grid(&vec![1; sides.len()])?.starting_at(&at[..sides.len()])?;
    let query = draw(&encoding, &noise, &here, realizations)?.q;
    let factor = 1.0 / (f64::from(realizations) * scale(realizations, 1).powi(2));
    let mut drawn = vec![0.0; window.tokens()];
    for piece in pieces(&window, realizations as usize)? {
        if !go_on() {
            return Ok(None);
        }
        let codes = draw(&encoding, &noise, &piece.positions, realizations)?;
        for (token, key) in piece.tokens.zip(codes.k.chunks(realizations as usize)) {
            let sum: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
            drawn[window.tokens() - 1 - token] = factor * sum;
        }
    }
    let deviation = |p: &f64| entry_variance(variances, *p, realizations).sqrt();
    let deviations = exact.iter().map(deviation).collect();
    let Some(errors) = errors(settings, &encoding, go_on)? else { return Ok(None) };
    let parameters = settings.encoding(true)?.parameters();
    Ok(Some(Found {
        settings: settings.clone(),
        half,
        exact,
        drawn,
        deviations,
        variances,
        errors,
        parameters,
        number,
    }))
}

/// Codes by whichever way is cheaper: nothing here needs the bits of other sizes.
pub(super) fn draw(
    encoding: &Encoding,
    noise: &Noise,
    positions: &Positions,
    realizations: u32,
) -> crate::Result<Codes> {
    let Code::Conv(code) = encoding.code() else { return encoding.draw(noise, positions, realizations) };
    let z = noise.conv(code.heads(), code.width(), positions, code.taps(), realizations)?;
    let mut codes = code.codes(positions, &z, realizations, code.plan(positions, realizations)?)?;
    if let Some(gate) = encoding.gate() {
        let index = encoding.code().gate_index();
        gate.apply(&mut codes, &noise.gate(code.heads(), code.width(), index, realizations)?)?;
    }
    Ok(codes)
}

/// Tokens side by side, and where they stand.
pub(super) struct Piece {
    pub(super) tokens: Range<usize>,
    pub(super) positions: Positions,
}

/// All tokens in pieces whose codes, `each` numbers a token, do not take much memory: some lines, or a part of one.
pub(super) fn pieces(all: &Positions, each: usize) -> crate::Result<Vec<Piece>> {
    let most = (PIECE / each.max(1)).max(1);
    let cols = all.sides().last().map_or(1, |&side| side as usize);
    let lines = all.tokens() / cols;
    let mut out = Vec::new();
    let mut add = |line: usize, lines: usize, col: usize, cols_here: usize| -> crate::Result<()> {
        let first = line * cols + col;
        let at = all.at(first);
        let (sides, axes) = ([lines as u32, cols_here as u32], all.axes());
        let positions = Positions::grid(&sides[2 - axes..])?.starting_at(&at[..axes])?;
        out.push(Piece { tokens: first..first + (lines - 1) * cols + cols_here, positions });
        Ok(())
    };
    if most >= cols {
        for line in (0..lines).step_by(most / cols) {
            add(line, (most / cols).min(lines - line), 0, cols)?;
        }
    } else {
        for line in 0..lines {
            for col in (0..cols).step_by(most) {
                add(line, 1, col, most.min(cols - col))?;
            }
        }
    }
    Ok(out)
}

/// Errors of the covariance of a few positions. More realisations only add to those of fewer, so that one draw of many is as many
/// draws of few that do not depend on each other.
fn errors(
    settings: &PositionSettings,
    encoding: &Encoding,
    go_on: &dyn Fn() -> bool,
) -> crate::Result<Option<Vec<Error>>> {
    let axes = settings.axes.count() as usize;
    let positions = Positions::grid(&vec![MEASURED[axes - 1]; axes])?;
    let exact = encoding.template_matrix(0, 0, &positions)?;
    let variances = encoding.variances(0, 0)?;
    let row = MOST as usize;
    let mut squares: Vec<Vec<f64>> = vec![Vec::new(); powers().count()];
    for draw_number in 0..DRAWS {
        // Another draw than the one that is shown.
        let codes = draw(encoding, &settings.noise(false, draw_number + 1), &positions, MOST)?;
        let factor = 1.0 / scale(MOST, 1).powi(2);
        // Sums over blocks of the fewest realisations; pairs of them make the next ones.
        let mut blocks: Vec<Vec<f64>> = vec![Vec::with_capacity(exact.len()); row / FEWEST as usize];
        for q in codes.q.chunks(row) {
            if !go_on() {
                return Ok(None);
            }
            for k in codes.k.chunks(row) {
                let products = q.chunks(FEWEST as usize).zip(k.chunks(FEWEST as usize));
                for (block, (q, k)) in blocks.iter_mut().zip(products) {
                    block.push(factor * q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>());
                }
            }
        }
        for (realizations, squares) in powers().zip(&mut squares) {
            let mean_square = |block: &Vec<f64>| {
                let gaps = block.iter().zip(&exact).map(|(sum, p)| sum / f64::from(realizations) - p);
                gaps.map(|gap| gap * gap).sum::<f64>() / exact.len() as f64
            };
            squares.extend(blocks.iter().map(mean_square));
            blocks = blocks.chunks(2).map(merged).collect();
        }
    }
    let error = |(realizations, squares): (u32, &Vec<f64>)| {
        Error::of(realizations, predicted_rmse(variances, &exact, realizations), squares)
    };
    Ok(Some(powers().zip(&squares).map(error).collect()))
}

/// Numbers of realisations that errors are told of.
pub(super) fn powers() -> impl Iterator<Item = u32> {
    (FEWEST.ilog2()..=MOST.ilog2()).map(|power| 1 << power)
}

/// Sums of a pair of blocks.
pub(super) fn merged(pair: &[Vec<f64>]) -> Vec<f64> {
    match pair {
        [a, b] => a.iter().zip(b).map(|(a, b)| a + b).collect(),
        _ => pair.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::position::Kind;

    fn of(settings: &PositionSettings) -> Found {
        find(&CodeQuestion::of(settings), 1, &|| true).expect("nothing stops it").expect("a template")
    }

    #[test]
    fn errors_are_those_of_the_formula_for_every_kind() {
        for kind in [Kind::Sine, Kind::Conv] {
            for axes in [Axes::Picture, Axes::Line] {
                let settings = PositionSettings { kind, axes, gate: 0.2, ..PositionSettings::default() };
                let found = of(&settings);
                assert_eq!(found.exact.len(), found.side().pow(axes.count()));
                // Of more realisations there are few draws, and what they are away from the formula is no Gaussian.
                for error in found.errors.iter().filter(|e| e.realizations <= 512) {
                    let ratio = error.measured / error.predicted;
                    let room = 4.0 * error.standard_error.expect("of many") / error.predicted;
                    assert!((ratio - 1.0).abs() < room.max(0.02), "{kind:?} {axes:?} {error:?}");
                }
                // As far as the deviations say, on average.
                let gaps = found.drawn.iter().zip(&found.exact).zip(&found.deviations);
                let mean =
                    gaps.map(|((a, b), s)| ((a - b) / s).powi(2)).sum::<f64>() / found.exact.len() as f64;
                assert!((0.2..4.0).contains(&mean), "{kind:?} {axes:?} {mean}");
            }
        }
    }

    #[test]
    fn pieces_are_all_tokens_once() {
        for (sides, each) in
            [(vec![7, 5], PIECE / 11), (vec![7, 5], PIECE / 3), (vec![40], PIECE / 9), (vec![3], 1)]
        {
            let all =
                Positions::grid(&sides).expect("a grid").starting_at(&vec![4; sides.len()]).expect("fits");
            let mut seen = Vec::new();
            for piece in pieces(&all, each).expect("pieces") {
                assert_eq!(piece.tokens.len(), piece.positions.tokens(), "{sides:?}");
                for (i, token) in piece.tokens.enumerate() {
                    assert_eq!(piece.positions.at(i), all.at(token));
                    seen.push(token);
                }
            }
            assert_eq!(seen, (0..all.tokens()).collect::<Vec<_>>(), "{sides:?}");
        }
    }

    #[test]
    fn a_question_that_is_given_up_has_no_answer() {
        assert!(find(&CodeQuestion::of(&PositionSettings::default()), 1, &|| false).is_none());
        let wrong = PositionSettings { bias: f64::NAN, ..PositionSettings::default() };
        let why = find(&CodeQuestion::of(&wrong), 1, &|| true).expect("an answer").expect_err("no number");
        assert!(why.contains("bias"), "{why}");
    }
}
