//! Masks of relative positions in the explorer: kinds to choose from, names, and what a change of the mask means for the other
//! settings. (Masks that are painted over the picture are another thing: [`mask`](super::mask).)

use super::panel::{form_name, form_problem};
use super::settings::{Compute, RowForm};
use crate::mask::{MaskSpec, StencilSpec, ToeplitzSpec};
use crate::numbers::significant;
use crate::words::counted;

/// Longest side that a table by hand is made to grow to; longer ones come from sessions.
pub const MOST_STENCIL: u32 = 9;

/// Kinds of masks, without their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every token sees every token.
    None,
    /// Only tokens before.
    Causal,
    /// γ per token in raster order.
    Decay,
    /// Exponential along rows and columns.
    Separable,
    /// Weight by distance.
    Distance,
    /// A small table by hand.
    ByHand,
}

impl Kind {
    /// All kinds, in the order of menus.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Distance, Self::ByHand, Self::Separable, Self::Decay, Self::Causal];

    /// The kind of a mask.
    pub fn of(mask: &MaskSpec) -> Self {
        match mask {
            MaskSpec::None => Self::None,
            MaskSpec::Causal => Self::Causal,
            MaskSpec::Decay { .. } => Self::Decay,
            MaskSpec::Separable { .. } => Self::Separable,
            MaskSpec::Toeplitz(_) => Self::Distance,
            MaskSpec::Stencil(_) => Self::ByHand,
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Causal => "Causal",
            Self::Decay => "Decay",
            Self::Separable => "Separable",
            Self::Distance => "By distance",
            Self::ByHand => "By hand",
        }
    }

    /// What it is, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::None => "Every token sees every token.",
            Self::Causal => "A token sees itself and those before it in reading order.",
            Self::Decay => "Weight falls by a factor with every token in reading order.",
            Self::Separable => {
                "Weight falls exponentially along rows and columns: scans compute it in linear time."
            }
            Self::Distance => "Weight falls with the distance from the query: discs, squares, diamonds.",
            Self::ByHand => "A small table of weights around the query, painted cell by cell.",
        }
    }

    /// A mask of this kind to begin with.
    pub fn usual(self) -> MaskSpec {
        match self {
            Self::None => MaskSpec::None,
            Self::Causal => MaskSpec::Causal,
            Self::Decay => MaskSpec::Decay { gamma: 0.95, both: false },
            Self::Separable => MaskSpec::Separable { rows: 4.0, cols: 4.0 },
            Self::Distance => MaskSpec::Toeplitz(ToeplitzSpec { size: 4.0, ..ToeplitzSpec::default() }),
            Self::ByHand => MaskSpec::Stencil(Preset::Cross.table(&StencilSpec::ones(5))),
        }
    }
}

/// Tables by hand to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The query's row and column.
    Cross,
    /// The border of the table.
    Ring,
    /// All weights 1.
    Ones,
    /// What lies before the query in reading order, and the query itself.
    OneSided,
    /// A hill.
    Hill,
}

impl Preset {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str, &'static str); 5] = [
        (Self::Cross, "Cross", "The query's own row and column."),
        (Self::Ring, "Ring", "The border of the table: the query does not see itself."),
        (Self::Ones, "Ones", "The whole table."),
        (Self::OneSided, "One side", "The query and what lies to its left."),
        (Self::Hill, "Hill", "A soft hill around the query."),
    ];

    /// Weights of this kind in a table's size, with its borders and direction.
    pub fn table(self, like: &StencilSpec) -> StencilSpec {
        let (middle_row, middle_col) = (like.rows / 2, like.cols / 2);
        let weight = |r: u32, c: u32| {
            let border = r == 0 || c == 0 || r + 1 == like.rows || c + 1 == like.cols;
            let on = match self {
                Self::Cross => r == middle_row || c == middle_col,
                Self::Ring => border,
                Self::Ones => true,
                Self::OneSided => c <= middle_col,
                Self::Hill => {
                    let part = |at: u32, side: u32| {
                        let x = (f64::from(at) - f64::from(side / 2)) / (0.25 * f64::from(side) + 0.25);
                        (-0.5 * x * x).exp()
                    };
                    return (100.0 * part(r, like.rows) * part(c, like.cols)).round() as f32 / 100.0;
                }
            };
            f32::from(u8::from(on))
        };
        let places = (0..like.rows).flat_map(|r| (0..like.cols).map(move |c| (r, c)));
        StencilSpec { weights: places.map(|(r, c)| weight(r, c)).collect(), ..like.clone() }
    }
}

/// The same table with other sides, which are brought to odd numbers of 1 to [`StencilSpec::MOST`]: the query stays in the middle, what is
/// new has weight 0.
pub fn resized(table: &StencilSpec, rows: u32, cols: u32) -> StencilSpec {
    let side = |x: u32| x.clamp(1, StencilSpec::MOST) | 1;
    let (rows, cols) = (side(rows), side(cols));
    let old = |at: u32, new: u32, old: u32| (at + old / 2).checked_sub(new / 2).filter(|x| *x < old);
    let weight = |r: u32, c: u32| {
        let place = old(r, rows, table.rows).zip(old(c, cols, table.cols));
        let at = place.map(|(r, c)| (r * table.cols + c) as usize);
        at.and_then(|at| table.weights.get(at).copied()).unwrap_or(0.0)
    };
    let places = (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c)));
    StencilSpec { rows, cols, weights: places.map(|(r, c)| weight(r, c)).collect(), ..table.clone() }
}

/// The kind after a mask's own, as it usually is.
pub fn next(mask: &MaskSpec) -> MaskSpec {
    let at = Kind::ALL.iter().position(|kind| *kind == Kind::of(mask)).unwrap_or(0);
    Kind::ALL[(at + 1) % Kind::ALL.len()].usual()
}

/// Sets the mask. A form of rows that no mask can weigh goes back to none: then a line that says so.
pub fn set(compute: &mut Compute, mask: MaskSpec) -> Option<String> {
    compute.mask = mask;
    let problem = form_problem(compute, compute.form)?;
    let text = format!("{} was set back to none. {problem}", form_name(compute.form));
    compute.form = RowForm::None;
    Some(text)
}

/// A mask in a few words: `gauss of 8 tokens, torus`.
pub fn in_words(mask: &MaskSpec) -> String {
    let short = |x: f64| significant(x, 3);
    let extras = |torus: bool, causal: bool| {
        format!("{}{}", if torus { ", torus" } else { "" }, if causal { ", causal" } else { "" })
    };
    match mask {
        MaskSpec::None => "no relative mask".into(),
        MaskSpec::Causal => "causal mask".into(),
        MaskSpec::Decay { gamma, both } => {
            format!("decay mask {}{}", short(*gamma), if *both { ", both ways" } else { "" })
        }
        MaskSpec::Separable { rows, cols } if rows == cols => format!("separable mask {}", short(*rows)),
        MaskSpec::Separable { rows, cols } => format!("separable mask {} × {}", short(*rows), short(*cols)),
        MaskSpec::Toeplitz(spec) => {
            let name = crate::mask::Profile::ALL.iter().find(|(_, p)| *p == spec.profile);
            let name = name.map_or("table", |(name, _)| *name);
            format!("{name} mask {}{}", short(spec.size), extras(spec.torus, spec.causal))
        }
        MaskSpec::Stencil(spec) => {
            format!("{} × {} mask by hand{}", spec.rows, spec.cols, extras(spec.torus, spec.causal))
        }
    }
}

/// Where a key lies from the query: `2 rows above, 3 columns right`.
pub fn offset_in_words((rows, cols): (i64, i64)) -> String {
    let part = |x: i64, one: &str, more: &str, before: &str, after: &str| {
        let side = if x < 0 { before } else { after };
        (x != 0).then(|| format!("{} {side}", counted(x.unsigned_abs() as usize, one, more)))
    };
    let parts =
        [part(rows, "row", "rows", "above", "below"), part(cols, "column", "columns", "left", "right")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "the query itself".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::settings::Road;

    #[test]
    fn cycling_goes_through_all_kinds_and_back() {
        let mut mask = MaskSpec::None;
        for kind in Kind::ALL.into_iter().cycle().skip(1).take(Kind::ALL.len()) {
            mask = next(&mask);
            assert_eq!(Kind::of(&mask), kind);
            assert!(mask.to_string().parse::<MaskSpec>().is_ok_and(|read| read == mask), "{mask}");
        }
        assert_eq!(mask, MaskSpec::None);
    }

    #[test]
    fn other_sides_keep_the_query_in_the_middle() {
        let table = StencilSpec { weights: (0..15).map(|x| x as f32).collect(), ..StencilSpec::ones(3) };
        let table = StencilSpec { rows: 3, cols: 5, ..table };
        let larger = resized(&table, 5, 5);
        assert_eq!(larger.weights[12], table.weights[7], "the query's own weight");
        assert_eq!(resized(&larger, 3, 5), table, "and back");
        let smaller = resized(&table, 1, 2);
        assert_eq!((smaller.rows, smaller.cols, smaller.weights), (1, 3, vec![6.0, 7.0, 8.0]));
        assert_eq!(resized(&table, 0, 99).cols, StencilSpec::MOST);
    }

    #[test]
    fn presets_are_what_they_are_called() {
        let weights = |preset: Preset| preset.table(&StencilSpec::ones(3)).weights;
        assert_eq!(weights(Preset::Cross), [0., 1., 0., 1., 1., 1., 0., 1., 0.]);
        assert_eq!(weights(Preset::Ring), [1., 1., 1., 1., 0., 1., 1., 1., 1.]);
        assert_eq!(weights(Preset::OneSided), [1., 1., 0., 1., 1., 0., 1., 1., 0.]);
        assert_eq!(weights(Preset::Hill)[4], 1.0);
    }

    #[test]
    fn a_mask_takes_whitening_away_and_says_so() {
        let mut compute = Compute { form: RowForm::Row, road: Road::Exact, ..Compute::default() };
        let told = set(&mut compute, MaskSpec::Causal).expect("it is told");
        assert!(told.contains("Row was set back to none") && compute.form == RowForm::None, "{told}");
        let mut compute = Compute { form: RowForm::Sum, road: Road::Exact, ..Compute::default() };
        assert_eq!(set(&mut compute, MaskSpec::Causal), None, "sums go with masks");
        assert_eq!(compute.form, RowForm::Sum);
    }

    #[test]
    fn offsets_are_told_as_people_say_them() {
        let words = [(0, 0), (-2, 3), (1, 0), (0, -1)].map(offset_in_words);
        assert_eq!(
            words,
            ["the query itself", "2 rows above, 3 columns right", "1 row below", "1 column left"]
        );
    }
}
