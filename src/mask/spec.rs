//! Masks in words: what `--mask` takes, and what the explorer copies back out.
//!
//! ```text
//! none
//! causal
//! decay:0.95            γ = 0.95 per token, causal        decay:0.95,both   in both directions
//! separable:size=8      exp(−Σ|Δ|/size) per axis          separable:rows=8,cols=4
//! toeplitz:gauss,size=8,distance=l2,torus,causal
//! stencil:3x3,0/1/0/1/1/1/0/1/0,torus              a small table by hand, rows first, the query in its middle
//! ```

use super::table::{Distance, Profile, RelativeTable, grid};
use crate::error::{Error, Result};
use crate::numbers::{Short, shortest};
use crate::words::closest;
use std::fmt;
use std::str::FromStr;

/// A mask that stands on relative positions, before it knows how many tokens there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum MaskSpec {
    /// Every token sees every token.
    #[default]
    None,
    /// Tokens see themselves and those before them in raster order.
    Causal,
    /// γ to the power of the distance in raster order.
    Decay {
        /// γ per token, 0 to 1.
        gamma: f64,
        /// Whether later tokens are seen too.
        both: bool,
    },
    /// exp(−|Δrow|/rows − |Δcol|/cols): scans along the axes, no transform.
    Separable {
        /// Rows over which weight falls by e.
        rows: f64,
        /// The same for columns.
        cols: f64,
    },
    /// A table of relative positions.
    Toeplitz(ToeplitzSpec),
    /// A small table by hand; offsets past it have weight 0.
    Stencil(StencilSpec),
}

/// A small table of relative positions: weights around the query.
#[derive(Clone, Debug, PartialEq)]
pub struct StencilSpec {
    /// Rows of the table, odd.
    pub rows: u32,
    /// Columns of the table, odd.
    pub cols: u32,
    /// rows × cols weights of at least 0, row by row: the key's place as seen from the query in the middle.
    pub weights: Vec<f32>,
    /// Whether the borders of the grid are joined.
    pub torus: bool,
    /// Whether later tokens are hidden as well.
    pub causal: bool,
}

impl StencilSpec {
    /// Most rows or columns.
    pub const MOST: u32 = 31;

    /// A square of `side` weights of 1.
    pub fn ones(side: u32) -> Self {
        let weights = vec![1.0; (side * side) as usize];
        Self { rows: side, cols: side, weights, torus: false, causal: false }
    }

    /// The weight of a key `rows` below and `cols` right of the query.
    fn at(&self, rows: i64, cols: i64) -> f64 {
        let place = |offset: i64, side: u32| {
            usize::try_from(offset + i64::from(side / 2)).ok().filter(|p| *p < side as usize)
        };
        let found = place(rows, self.rows).zip(place(cols, self.cols));
        found.map_or(0.0, |(r, c)| self.weights[r * self.cols as usize + c].into())
    }

    /// The table for a grid (`[n]` or `[rows, cols]`).
    ///
    /// Errors: sides that are even, 0 or above [`Self::MOST`]; another number of weights; a weight that is negative or not finite; a
    /// grid without tokens or of three axes.
    pub fn table(&self, sides: &[u32]) -> Result<RelativeTable> {
        let good = |side: u32| side % 2 == 1 && side <= Self::MOST;
        if !good(self.rows) || !good(self.cols) {
            let got = format!("{}x{}", self.rows, self.cols);
            return Err(Error::value("sides of the stencil", "odd numbers up to 31", got, EXAMPLE_STENCIL));
        }
        let wanted = (self.rows * self.cols) as usize;
        if self.weights.len() != wanted {
            let expected = format!("{wanted} for {}x{}", self.rows, self.cols);
            return Err(Error::value(
                "weights of the stencil",
                expected,
                self.weights.len(),
                EXAMPLE_STENCIL,
            ));
        }
        if let Some(at) = self.weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            let what = format!("weight {at} of the stencil");
            return Err(Error::value(
                what,
                "a finite number of at least 0",
                self.weights[at],
                EXAMPLE_STENCIL,
            ));
        }
        if let [depth, _, _] = grid(sides)?
            && depth > 1
        {
            let remedy = "make a table of its own for three axes";
            return Err(Error::value(
                "grid under a stencil",
                "one or two axes",
                format!("{sides:?}"),
                remedy,
            ));
        }
        // Offsets of a table are query − key.
        let mut table = RelativeTable::from_fn(sides, 1, |_, [_, b, c]| self.at(-b, -c))?;
        if self.torus {
            table = table.wrapped()?;
        }
        if self.causal {
            table = table.times(&RelativeTable::causal(sides)?)?;
        }
        Ok(table)
    }
}

/// A table of relative positions by distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToeplitzSpec {
    /// How weight falls.
    pub profile: Profile,
    /// How far it reaches, in tokens.
    pub size: f64,
    /// How distance is measured.
    pub distance: Distance,
    /// Whether the borders of the grid are joined.
    pub torus: bool,
    /// Whether later tokens are hidden as well.
    pub causal: bool,
}

impl Default for ToeplitzSpec {
    /// A soft disc of 8 tokens.
    fn default() -> Self {
        Self { profile: Profile::Gaussian, size: 8.0, distance: Distance::L2, torus: false, causal: false }
    }
}

impl ToeplitzSpec {
    /// The table for a grid (`[n]`, `[rows, cols]` or three sides).
    ///
    /// Errors: a size that is not above 0, a grid without tokens.
    pub fn table(&self, sides: &[u32]) -> Result<RelativeTable> {
        let mut table = RelativeTable::profile(sides, self.distance, self.profile, self.size)?;
        if self.torus {
            table = table.wrapped()?;
        }
        if self.causal {
            table = table.times(&RelativeTable::causal(sides)?)?;
        }
        Ok(table)
    }
}

const DISTANCES: [(&str, Distance); 3] =
    [("l1", Distance::L1), ("l2", Distance::L2), ("linf", Distance::LInf)];

impl MaskSpec {
    /// The weights as a table for a grid (`[n]`, `[rows, cols]` or three sides): every mask here depends on the offset alone, those by
    /// raster order too, because the offset tells how far apart two tokens are in that order.
    ///
    /// Errors: sizes that are not above 0, a grid without tokens.
    pub fn table(&self, sides: &[u32]) -> Result<RelativeTable> {
        let [_, rows, cols] = grid(sides)?.map(f64::from);
        let raster = |[a, b, c]: [i64; 3]| (a as f64 * rows + b as f64) * cols + c as f64;
        match *self {
            Self::None => RelativeTable::ones(sides),
            Self::Causal => RelativeTable::causal(sides),
            Self::Decay { gamma, both } => RelativeTable::from_fn(sides, 1, |_, offset| {
                let distance = raster(offset);
                if distance < 0.0 && !both { 0.0 } else { gamma.powf(distance.abs()) }
            }),
            Self::Separable { rows, cols } => RelativeTable::from_fn(sides, 1, |_, [_, b, c]| {
                (-(b.abs() as f64) / rows - c.abs() as f64 / cols).exp()
            }),
            Self::Toeplitz(spec) => spec.table(sides),
            Self::Stencil(ref spec) => spec.table(sides),
        }
    }
}

impl MaskSpec {
    /// The weights that query number `query` of a grid (`[n]` or `[rows, cols]`) gives to all keys, in raster order: a row of the mask,
    /// without its table. O(n).
    ///
    /// Errors: as [`Self::table`]; a grid of three axes under a stencil; a query that is not on the grid.
    pub fn row(&self, sides: &[u32], query: u32) -> Result<Vec<f32>> {
        let n = grid(sides)?;
        // Sizes and weights are looked at where the table of one token is made.
        self.table(&[1, 1])?;
        let tokens: u32 = n.iter().product();
        if query >= tokens {
            let remedy = "number tokens from 0 in raster order";
            return Err(Error::value("query of a mask's row", format!("below {tokens}"), query, remedy));
        }
        let place = |token: u32| [token / (n[1] * n[2]), token / n[2] % n[1], token % n[2]].map(i64::from);
        let own = place(query);
        let offset = |key: u32| {
            let key = place(key);
            [0, 1, 2].map(|axis| own[axis] - key[axis])
        };
        Ok((0..tokens).map(|key| self.at(n, offset(key))).collect())
    }

    /// Weight at an offset, query − key, on a grid of sides `n`; sizes and weights as they are, not looked at.
    pub(crate) fn at(&self, n: [u32; 3], offset: [i64; 3]) -> f32 {
        // As tables are wrapped: each axis takes the shorter way, −n/2 … n/2.
        let near = |torus: bool| {
            [0, 1, 2].map(|axis| {
                let (side, half) = (i64::from(n[axis]), i64::from(n[axis] / 2));
                if torus { (offset[axis] + half).rem_euclid(side) - half } else { offset[axis] }
            })
        };
        let before = |causal: bool| if causal && offset < [0, 0, 0] { 0.0 } else { 1.0 };
        let raster = || {
            let [_, rows, cols] = n.map(f64::from);
            (offset[0] as f64 * rows + offset[1] as f64) * cols + offset[2] as f64
        };
        let weight = match self {
            Self::None => 1.0,
            Self::Causal => before(true),
            Self::Decay { gamma, both } => match raster() {
                distance if distance < 0.0 && !both => 0.0,
                distance => gamma.powf(distance.abs()),
            },
            Self::Separable { rows, cols } => {
                (-(offset[1].abs() as f64) / rows - offset[2].abs() as f64 / cols).exp()
            }
            Self::Toeplitz(t) => t.profile.at(t.distance.of(near(t.torus)), t.size) * before(t.causal),
            Self::Stencil(s) => {
                let [_, b, c] = near(s.torus);
                s.at(-b, -c) * before(s.causal)
            }
        };
        weight as f32
    }
}

fn names<T>(list: &[(&str, T)]) -> String {
    list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn number(key: &str, text: &str, above_zero: bool) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && (!above_zero || x > 0.0) => Ok(x),
        _ => Err(Error::value(
            format!("`{key}` of the mask"),
            "a number of tokens above 0",
            text,
            format!("try {key}=8"),
        )),
    }
}

fn unknown(kind: &str, word: &str, known: &str) -> Error {
    Error::value(format!("option of the mask `{kind}`"), known, word, format!("for example: {EXAMPLE}"))
}

const EXAMPLE: &str = "toeplitz:gauss,size=8,distance=l2,torus";
const EXAMPLE_STENCIL: &str = "for example: stencil:3x3,0/1/0/1/1/1/0/1/0,torus";

impl MaskSpec {
    /// Kinds that this takes, for tests of what a mask's word is.
    pub const KINDS: [&str; 6] = ["none", "causal", "decay", "separable", "toeplitz", "stencil"];
    /// The same as they are written.
    const KNOWN: &str = "none, causal, decay:γ, separable:size=…, toeplitz:…, stencil:…";

    /// Whether the words begin as a mask by relative position does.
    pub fn is_meant(text: &str) -> bool {
        Self::KINDS.contains(&text.split(':').next().unwrap_or_default().trim())
    }
}

impl FromStr for MaskSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let options: Vec<&str> = rest.split(',').map(str::trim).filter(|o| !o.is_empty()).collect();
        let no_options = |spec: Self| match options.first() {
            None => Ok(spec),
            Some(word) => Err(unknown(kind, word, "nothing: it has no options")),
        };
        match kind {
            "none" => no_options(Self::None),
            "causal" => no_options(Self::Causal),
            "decay" => decay(&options),
            "separable" => separable(&options),
            "toeplitz" => toeplitz(&options),
            "stencil" => stencil(&options),
            other => Err(Error::value(
                "mask",
                format!("one of {}", Self::KNOWN),
                other,
                meant(other, &Self::KINDS, EXAMPLE),
            )),
        }
    }
}

/// The way out for a word that is no kind of mask: the kind that it resembles, or an example.
fn meant(word: &str, kinds: &[&str], example: &str) -> String {
    let found = closest(word.trim(), kinds.iter().copied());
    found.map_or_else(|| format!("for example: {example}"), |kind| format!("did you mean {kind}?"))
}

/// What is said where masks by relative position and masks on graphs are both taken, and a text begins with neither's kind.
#[cfg(feature = "cli")]
pub(crate) fn no_mask(text: &str) -> Error {
    use super::network::NetworkMaskSpec;
    let word = text.split(':').next().unwrap_or_default().trim();
    let expected =
        format!("by position one of {}; along edges one of {}", MaskSpec::KNOWN, NetworkMaskSpec::KNOWN);
    let kinds = [&MaskSpec::KINDS[..], &NetworkMaskSpec::KINDS[..]].concat();
    Error::value("mask", expected, word, meant(word, &kinds, &format!("{EXAMPLE}, or diffusion:t=100")))
}

fn decay(options: &[&str]) -> Result<MaskSpec> {
    let (mut gamma, mut both) = (None, false);
    for option in options {
        match (*option, option.parse::<f64>()) {
            ("both", _) => both = true,
            (_, Ok(x)) if (0.0..=1.0).contains(&x) && gamma.is_none() => gamma = Some(x),
            (word, _) => return Err(unknown("decay", word, "one γ from 0 to 1, and `both`")),
        }
    }
    let missing = || Error::value("mask `decay`", "γ from 0 to 1", "none", "for example: decay:0.95");
    Ok(MaskSpec::Decay { gamma: gamma.ok_or_else(missing)?, both })
}

fn separable(options: &[&str]) -> Result<MaskSpec> {
    let (mut rows, mut cols) = (8.0, 8.0);
    for option in options {
        match option.split_once('=') {
            Some(("size", x)) => {
                rows = number("size", x, true)?;
                cols = rows;
            }
            Some(("rows", x)) => rows = number("rows", x, true)?,
            Some(("cols", x)) => cols = number("cols", x, true)?,
            _ => return Err(unknown("separable", option, "size=…, rows=…, cols=…")),
        }
    }
    Ok(MaskSpec::Separable { rows, cols })
}

fn stencil(options: &[&str]) -> Result<MaskSpec> {
    let mut spec = StencilSpec { rows: 0, cols: 0, weights: Vec::new(), torus: false, causal: false };
    for option in options {
        let number = |t: &str| t.parse::<f32>().ok();
        let sides = option.split_once('x').and_then(|(r, c)| Some((r.parse().ok()?, c.parse().ok()?)));
        match (*option, sides) {
            ("torus", _) => spec.torus = true,
            ("causal", _) => spec.causal = true,
            (_, Some((rows, cols))) => (spec.rows, spec.cols) = (rows, cols),
            (word, None) => {
                let known = "ROWSxCOLS, as many weights with / between them, torus, causal";
                let weights: Option<Vec<f32>> = word.split('/').map(number).collect();
                spec.weights = weights.ok_or_else(|| unknown("stencil", word, known))?;
            }
        }
    }
    // Whether they fit each other, whatever the grid.
    spec.table(&[1, 1])?;
    Ok(MaskSpec::Stencil(spec))
}

fn toeplitz(options: &[&str]) -> Result<MaskSpec> {
    let mut spec = ToeplitzSpec::default();
    for option in options {
        let profile = Profile::ALL.iter().find(|(name, _)| name == option);
        match (option.split_once('='), *option, profile) {
            (_, _, Some((_, profile))) => spec.profile = *profile,
            (_, "torus", _) => spec.torus = true,
            (_, "causal", _) => spec.causal = true,
            (Some(("size", x)), ..) => spec.size = number("size", x, true)?,
            (Some(("distance", x)), ..) => {
                let found = DISTANCES.iter().find(|(name, _)| *name == x);
                let wrong = || {
                    Error::value(
                        "`distance` of the mask",
                        names(&DISTANCES),
                        x,
                        "l2 is a disc, linf a square",
                    )
                };
                spec.distance = found.ok_or_else(wrong)?.1;
            }
            (_, word, None) => {
                let known =
                    format!("a profile ({}), size=…, distance=…, torus, causal", names(&Profile::ALL));
                return Err(unknown("toeplitz", word, &known));
            }
        }
    }
    Ok(MaskSpec::Toeplitz(spec))
}

impl fmt::Display for MaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Causal => f.write_str("causal"),
            Self::Decay { gamma, both } => {
                write!(f, "decay:{}{}", Short(*gamma), if *both { ",both" } else { "" })
            }
            Self::Separable { rows, cols } if rows == cols => write!(f, "separable:size={}", Short(*rows)),
            Self::Separable { rows, cols } => {
                write!(f, "separable:rows={},cols={}", Short(*rows), Short(*cols))
            }
            Self::Toeplitz(spec) => {
                let profile =
                    Profile::ALL.iter().find(|(_, p)| *p == spec.profile).map_or("?", |(name, _)| *name);
                let distance =
                    DISTANCES.iter().find(|(_, d)| *d == spec.distance).map_or("?", |(name, _)| *name);
                write!(f, "toeplitz:{profile},size={},distance={distance}", Short(spec.size))?;
                f.write_str(if spec.torus { ",torus" } else { "" })?;
                f.write_str(if spec.causal { ",causal" } else { "" })
            }
            Self::Stencil(spec) => {
                let weights: Vec<String> = spec.weights.iter().map(shortest).collect();
                write!(f, "stencil:{}x{},{}", spec.rows, spec.cols, weights.join("/"))?;
                f.write_str(if spec.torus { ",torus" } else { "" })?;
                f.write_str(if spec.causal { ",causal" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "none",
            "causal",
            "decay:0.95",
            "separable:size=1e30",
            "decay:0,both",
            "separable:size=8",
            "separable:rows=8,cols=2.5",
            "toeplitz:gauss,size=8,distance=l2",
            "toeplitz:window,size=3,distance=linf,torus,causal",
            "stencil:1x3,0/1/0.25,torus,causal",
        ] {
            let spec: MaskSpec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!(
            "toeplitz".parse::<MaskSpec>().expect("defaults"),
            MaskSpec::Toeplitz(ToeplitzSpec::default())
        );
    }

    #[test]
    fn a_row_is_that_of_the_table() {
        for text in [
            "none",
            "causal",
            "decay:0.9",
            "decay:0.7,both",
            "decay:0",
            "separable:rows=2,cols=0.5",
            "toeplitz:gauss,size=2,distance=l2",
            "toeplitz:triangle,size=3,distance=l1,torus",
            "toeplitz:window,size=1,distance=linf,torus,causal",
            "toeplitz:exp,size=1.5,causal",
            "stencil:3x5,0/1/2/3/4/5/6/7/8/9/10/11/12/13/14",
            "stencil:3x3,1/2/3/4/5/6/7/8/9,torus",
            "stencil:3x3,1/2/3/4/5/6/7/8/9,torus,causal",
        ] {
            let spec: MaskSpec = text.parse().expect(text);
            for sides in [vec![1], vec![7], vec![1, 6], vec![4, 5], vec![3, 2]] {
                let table = spec.table(&sides).expect(text);
                let tokens: u32 = sides.iter().product();
                for query in 0..tokens {
                    let row = spec.row(&sides, query).expect(text);
                    let wanted: Vec<f32> = (0..tokens).map(|key| table.weight(0, query, key)).collect();
                    assert_eq!(row, wanted, "{text} on {sides:?}, query {query}");
                }
            }
        }
        assert!(MaskSpec::Causal.row(&[2, 2], 4).expect_err("no such token").to_string().contains("below 4"));
        let size = MaskSpec::Separable { rows: 2.0, cols: 2.0 };
        assert!(size.row(&[2, 2], 0).is_ok());
        let broken = MaskSpec::Toeplitz(ToeplitzSpec { size: 0.0, ..ToeplitzSpec::default() });
        assert!(broken.row(&[2, 2], 0).is_err());
    }

    #[test]
    fn a_stencil_is_seen_from_the_query() {
        let spec: MaskSpec = "stencil:3x3,0/0/0/0/1/2/0/0/0".parse().expect("a stencil");
        let table = spec.table(&[4, 5]).expect("fits");
        // Token 7 (row 1, column 2) sees the one to its right with weight 2, the one to its left not at all.
        assert_eq!([7, 8, 6, 12].map(|key| table.weight(0, 7, key)), [1.0, 2.0, 0.0, 0.0]);
        let torus: MaskSpec = "stencil:1x3,0/1/2,torus".parse().expect("a stencil");
        let table = torus.table(&[2, 4]).expect("fits");
        assert_eq!([3, 0, 4].map(|key| table.weight(0, 3, key)), [1.0, 2.0, 0.0]);
    }

    #[test]
    fn mistakes_are_told_with_what_would_do() {
        for (text, named) in [
            ("toplitz", "did you mean toeplitz?"),
            ("window", "for example"),
            ("toeplitz:gaus", "exp, gauss, window"),
            ("toeplitz:size=0", "above 0"),
            ("toeplitz:size=nan", "above 0"),
            ("toeplitz:distance=l3", "l1, l2, linf"),
            ("decay:1.5", "from 0 to 1"),
            ("decay", "from 0 to 1"),
            ("causal:3", "no options"),
            ("separable:depth=3", "rows=…"),
            ("stencil:3x3,1/2/3", "9 for 3x3"),
            ("stencil:2x3,1/1/1/1/1/1", "odd"),
            ("stencil:1x1,-1", "at least 0"),
            ("stencil:1x1,one", "ROWSxCOLS"),
            ("stencil", "odd"),
        ] {
            let message = text.parse::<MaskSpec>().expect_err(text).to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }
}
