//! Queries, keys and values of the user's own model, opened beside a picture from `.npz` or `.safetensors`.
//!
//! What is read is checked as a whole: names, shapes, finite numbers, and how the tokens lie over the picture.

use crate::arrays::{self, Array, ArrayData, ArrayError};
use crate::words::{counted, plural};
use glam::UVec2;
use std::collections::BTreeMap;
use std::path::Path;

/// Most tokens before those of the picture: a class token and up to 15 registers.
const MOST_EXTRA: usize = 16;

/// Extra tokens that are tried where no grid is given: none, a class token, a class token and four registers.
const USUAL_EXTRA: [usize; 3] = [0, 1, 5];

/// What a person can choose about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayChoice {
    /// Which of a batch, counted from 0; `None` = the first, with a notice where there are several.
    pub batch: Option<usize>,
    /// Rows and columns of tokens over the picture; `None` = from the file, the picture's shape, or a square.
    pub grid: Option<(usize, usize)>,
}

/// Arrays of one picture, ready for the engine. All are `[heads, tokens, dim]`, row-major, tokens in raster order.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelArrays {
    /// Queries `[heads, tokens, dim]`.
    pub q: Vec<f32>,
    /// Keys `[heads, tokens, dim]`.
    pub k: Vec<f32>,
    /// Values `[heads, tokens, value_dim]`.
    pub v: Option<Vec<f32>>,
    /// Heads.
    pub heads: usize,
    /// Tokens over the picture: rows · columns of `grid`.
    pub tokens: usize,
    /// Numbers per query and key.
    pub dim: usize,
    /// Numbers per value; 0 without values.
    pub value_dim: usize,
    /// Rows and columns of tokens.
    pub grid: (usize, usize),
    /// What the user should know: tokens left out, the grid that was assumed.
    pub notices: Vec<String>,
}

/// Why arrays cannot be used; one line each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file.
    #[error(transparent)]
    File(#[from] ArrayError),
    /// An array is not there.
    #[error(
        "no array of {wanted}: expected one named `{name}`, found {found}; name the arrays `q`, `k` and `v` (or `qkv`)"
    )]
    Missing {
        /// Queries or keys.
        wanted: &'static str,
        /// Its usual name.
        name: &'static str,
        /// Names in the file.
        found: String,
    },
    /// A name fits several arrays.
    #[error("several arrays could be the {wanted}: {found}; save one of them alone, named `{name}`")]
    Ambiguous {
        /// Queries, keys or values.
        wanted: &'static str,
        /// Its usual name.
        name: &'static str,
        /// Names that fit.
        found: String,
    },
    /// An array has another shape than is needed.
    #[error("array `{name}`: expected {expected}, got {got:?}")]
    Shape {
        /// The array.
        name: String,
        /// What it should be.
        expected: String,
        /// What it is.
        got: Vec<usize>,
    },
    /// Elements that are no floating-point numbers.
    #[error("array `{name}`: expected f16, bf16, f32 or f64, got {got}; convert it before saving")]
    Elements {
        /// The array.
        name: String,
        /// What it has.
        got: &'static str,
    },
    /// A number that is not finite.
    #[error(
        "array `{name}`: head {head}, token {token}, number {channel} is {value}; expected finite numbers"
    )]
    NotFinite {
        /// The array.
        name: String,
        /// Head.
        head: usize,
        /// Token, extra ones counted.
        token: usize,
        /// Place in the vector.
        channel: usize,
        /// The number.
        value: f32,
    },
    /// There is no such picture in the batch.
    #[error("picture {asked} of the batch: there are {batch}; choose 0 to {}", .batch.saturating_sub(1))]
    Batch {
        /// Which was asked for.
        asked: usize,
        /// How many there are.
        batch: usize,
    },
    /// Tokens that do not fill a grid.
    #[error("{} {} not fill {grid}; {remedy}", counted(*.tokens, "token", "tokens"), plural(*.tokens, "does", "do"))]
    Grid {
        /// Tokens of the arrays.
        tokens: usize,
        /// The grid in question.
        grid: String,
        /// What to do.
        remedy: String,
    },
}

/// Opens the arrays in the file at `path` for a picture of `picture` pixels.
///
/// * Arrays `q` and `k`, and `v` if there is one, are `[h, n, d]` or `[b, h, n, d]`; instead of them one `qkv` of
///   `[3, h, n, d]` or `[3, b, h, n, d]` will do. `query`, `keys` and the like, in any case, and names that end in
///   `.q` or `_q` are understood.
/// * An array `grid` of two numbers gives rows and columns.
/// * Extra tokens in front (class token, registers) are left out, with a notice.
///
/// Errors: every variant of [`ModelError`].
pub fn open(
    path: impl AsRef<Path>,
    picture: Option<UVec2>,
    choice: ArrayChoice,
) -> Result<ModelArrays, ModelError> {
    from_arrays(&arrays::read(path)?, picture, choice)
}

/// As [`open`], from arrays that were read already.
///
/// Errors: every variant of [`ModelError`] except `File`.
pub fn from_arrays(
    arrays: &BTreeMap<String, Array>,
    picture: Option<UVec2>,
    choice: ArrayChoice,
) -> Result<ModelArrays, ModelError> {
    let mut notices = Vec::new();
    let (q, k, v) = match packed(arrays)? {
        Some([q, k, v]) => (q, k, Some(v)),
        None => {
            let one = |role: Role| {
                find(arrays, role)?.ok_or_else(|| ModelError::Missing {
                    wanted: role.plural,
                    name: role.name,
                    found: names(arrays.keys()),
                })
            };
            (one(QUERIES)?, one(KEYS)?, find(arrays, VALUES)?)
        }
    };
    let q = Heads::take(&q, choice.batch, &mut notices)?;
    // One notice about the batch is enough.
    let k = Heads::take(&k, choice.batch, &mut Vec::new())?;
    let v = v.map(|v| Heads::take(&v, choice.batch, &mut Vec::new())).transpose()?;
    let expected = [Some(q.heads), Some(q.tokens), Some(q.dim)];
    k.expect(expected, "as the queries")?;
    if let Some(v) = &v {
        v.expect([expected[0], expected[1], None], "as the queries")?;
    }
    let given = match choice.grid {
        Some(grid) => Some(grid),
        None => grid_of(arrays)?,
    };
    let (grid, extra) = grid(q.tokens, given, picture, &mut notices)?;
    if extra > 0 {
        let what = if extra == 1 { "a class token".to_string() } else { format!("{extra} extra tokens") };
        notices.push(format!(
            "{what} in front of the {} of the picture left out",
            counted(q.tokens - extra, "token", "tokens")
        ));
    }
    Ok(ModelArrays {
        heads: q.heads,
        tokens: q.tokens - extra,
        dim: q.dim,
        value_dim: v.as_ref().map_or(0, |v| v.dim),
        q: q.without(extra),
        k: k.without(extra),
        v: v.map(|v| v.without(extra)),
        grid,
        notices,
    })
}

/// What an array is, and what it may be called.
#[derive(Clone, Copy)]
struct Role {
    plural: &'static str,
    name: &'static str,
    others: [&'static str; 2],
}

const QUERIES: Role = Role { plural: "queries", name: "q", others: ["query", "queries"] };
const KEYS: Role = Role { plural: "keys", name: "k", others: ["key", "keys"] };
const VALUES: Role = Role { plural: "values", name: "v", others: ["value", "values"] };
const PACKED: Role = Role { plural: "queries, keys and values in one", name: "qkv", others: ["qkv", "qkv"] };

/// An array under the name by which errors speak of it.
struct Named {
    name: String,
    array: Array,
}

/// The array of a role: by its whole name first, then by its ending.
fn find(arrays: &BTreeMap<String, Array>, role: Role) -> Result<Option<Named>, ModelError> {
    let fits = |name: &str| {
        let name = name.to_lowercase();
        name == role.name || role.others.contains(&name.as_str())
    };
    let ends = |name: &str| name.rsplit_once(['.', '_', '/']).is_some_and(|(_, end)| fits(end));
    let whole: Vec<&String> = arrays.keys().filter(|name| fits(name)).collect();
    let found = if whole.is_empty() { arrays.keys().filter(|name| ends(name)).collect() } else { whole };
    match found.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(Named { name: (*name).clone(), array: arrays[*name].clone() })),
        several => Err(ModelError::Ambiguous {
            wanted: role.plural,
            name: role.name,
            found: names(several.iter().copied()),
        }),
    }
}

fn names<'a>(list: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<String> = list.take(12).map(|name| format!("`{name}`")).collect();
    if list.is_empty() { "no arrays".into() } else { list.join(", ") }
}

/// Queries, keys and values out of one array `[3, …]`.
fn packed(arrays: &BTreeMap<String, Array>) -> Result<Option<[Named; 3]>, ModelError> {
    let Some(Named { name, array }) = find(arrays, PACKED)? else { return Ok(None) };
    let shape = &array.shape;
    if !(4..=5).contains(&shape.len()) || shape.first() != Some(&3) {
        let expected = "[3, h, n, d] or [3, b, h, n, d]".into();
        return Err(ModelError::Shape { name, expected, got: shape.clone() });
    }
    let data = floats(&name, &array.data)?;
    let third = data.len() / 3;
    let part = |i: usize, letter: &str| Named {
        name: format!("{name}[{i}] ({letter})"),
        array: Array {
            shape: shape[1..].to_vec(),
            data: ArrayData::F32(data[i * third..(i + 1) * third].to_vec()),
        },
    };
    Ok(Some([part(0, "q"), part(1, "k"), part(2, "v")]))
}

fn floats(name: &str, data: &ArrayData) -> Result<Vec<f32>, ModelError> {
    match data {
        ArrayData::F32(values) => Ok(values.clone()),
        ArrayData::F64(values) => Ok(values.iter().map(|x| *x as f32).collect()),
        other => Err(ModelError::Elements { name: name.into(), got: other.dtype() }),
    }
}

/// One picture's array `[heads, tokens, dim]`.
struct Heads {
    name: String,
    data: Vec<f32>,
    heads: usize,
    tokens: usize,
    dim: usize,
}

impl Heads {
    /// Takes one picture of a batch and checks that all its numbers are finite.
    fn take(named: &Named, batch: Option<usize>, notices: &mut Vec<String>) -> Result<Self, ModelError> {
        let Named { name, array } = named;
        let shape = |expected: &str| ModelError::Shape {
            name: name.clone(),
            expected: expected.into(),
            got: array.shape.clone(),
        };
        let (count, heads, tokens, dim) = match array.shape.as_slice() {
            [h, n, d] => (1, *h, *n, *d),
            [b, h, n, d] => (*b, *h, *n, *d),
            _ => return Err(shape("[h, n, d] or [b, h, n, d]")),
        };
        if heads * tokens * dim == 0 || count == 0 {
            return Err(shape("at least one head, token and number"));
        }
        let asked = batch.unwrap_or(0);
        if asked >= count {
            return Err(ModelError::Batch { asked, batch: count });
        }
        if batch.is_none() && count > 1 {
            notices.push(format!("the first of {count} pictures in the batch is shown"));
        }
        let size = heads * tokens * dim;
        let all = floats(name, &array.data)?;
        let data = all[asked * size..(asked + 1) * size].to_vec();
        if let Some(at) = data.iter().position(|x| !x.is_finite()) {
            return Err(ModelError::NotFinite {
                name: name.clone(),
                head: at / (tokens * dim),
                token: at / dim % tokens,
                channel: at % dim,
                value: data[at],
            });
        }
        Ok(Self { name: name.clone(), data, heads, tokens, dim })
    }

    fn expect(&self, sizes: [Option<usize>; 3], whose: &str) -> Result<(), ModelError> {
        let got = [self.heads, self.tokens, self.dim];
        if got.iter().zip(sizes).all(|(got, size)| size.is_none_or(|size| size == *got)) {
            return Ok(());
        }
        let text: Vec<String> =
            sizes.iter().map(|size| size.map_or_else(|| "any".into(), |s| s.to_string())).collect();
        Err(ModelError::Shape {
            name: self.name.clone(),
            expected: format!("[h, n, d] = [{}] {whose}", text.join(", ")),
            got: got.to_vec(),
        })
    }

    /// The numbers without the first tokens of every head.
    fn without(self, extra: usize) -> Vec<f32> {
        if extra == 0 {
            return self.data;
        }
        let size = self.tokens * self.dim;
        self.data.chunks(size).flat_map(|head| &head[extra * self.dim..]).copied().collect()
    }
}

/// Rows and columns that the file gives in an array `grid`.
fn grid_of(arrays: &BTreeMap<String, Array>) -> Result<Option<(usize, usize)>, ModelError> {
    let Some(array) = arrays.get("grid") else { return Ok(None) };
    let numbers: Vec<f64> = match &array.data {
        ArrayData::F32(x) => x.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::F64(x) => x.clone(),
        ArrayData::I32(x) => x.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::U32(x) => x.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::U8(x) => x.iter().map(|x| f64::from(*x)).collect(),
    };
    match numbers.as_slice() {
        [rows, cols] if *rows >= 1.0 && *cols >= 1.0 && rows.fract() == 0.0 && cols.fract() == 0.0 => {
            Ok(Some((*rows as usize, *cols as usize)))
        }
        _ => Err(ModelError::Shape {
            name: "grid".into(),
            expected: "two whole numbers, rows and columns".into(),
            got: array.shape.clone(),
        }),
    }
}

/// Grid and number of extra tokens in front for `tokens` tokens.
fn grid(
    tokens: usize,
    given: Option<(usize, usize)>,
    picture: Option<UVec2>,
    notices: &mut Vec<String>,
) -> Result<((usize, usize), usize), ModelError> {
    if let Some((rows, cols)) = given {
        let extra = rows.checked_mul(cols).and_then(|cells| tokens.checked_sub(cells));
        return match extra {
            Some(extra) if extra <= MOST_EXTRA && rows * cols > 0 => Ok(((rows, cols), extra)),
            _ => Err(ModelError::Grid {
                tokens,
                grid: format!("the {rows} × {cols} grid that was given"),
                remedy: format!("up to {MOST_EXTRA} more than rows × columns are left out as extra tokens"),
            }),
        };
    }
    for extra in USUAL_EXTRA.into_iter().filter(|extra| *extra < tokens) {
        let cells = tokens - extra;
        if let Some((rows, cols)) = picture.and_then(|size| like_picture(cells, size)) {
            if rows != cols {
                notices.push(format!(
                    "{cols} × {rows} tokens were assumed from the picture's shape; give an array `grid` of rows and columns otherwise"
                ));
            }
            return Ok(((rows, cols), extra));
        }
        let side = cells.isqrt();
        if side * side == cells {
            // Most models squeeze every picture into a square.
            if picture.is_some_and(|size| !alike(size, 1.0)) {
                notices.push(format!(
                    "{side} × {side} tokens were assumed although the picture is no square: they are stretched over it"
                ));
            }
            return Ok(((side, side), extra));
        }
    }
    Err(ModelError::Grid {
        tokens,
        grid: "a grid of the picture's shape or a square, with a class token or without".into(),
        remedy: "add an array `grid` of rows and columns to the file".into(),
    })
}

/// Whether a picture has about this width over height.
fn alike(size: UVec2, aspect: f64) -> bool {
    let own = f64::from(size.x.max(1)) / f64::from(size.y.max(1));
    (own / aspect).ln().abs() < 0.1
}

/// Rows and columns with as many cells whose shape is about the picture's; the nearest, if there are several.
fn like_picture(cells: usize, size: UVec2) -> Option<(usize, usize)> {
    let aspect = f64::from(size.x.max(1)) / f64::from(size.y.max(1));
    let off = |rows: usize| (((cells / rows) as f64 / rows as f64) / aspect).ln().abs();
    let nearest = (1..=cells.isqrt())
        .filter(|rows| cells.is_multiple_of(*rows))
        .flat_map(|rows| [rows, cells / rows])
        .min_by(|a, b| off(*a).total_cmp(&off(*b)))?;
    let rows = nearest;
    alike(size, (cells / rows) as f64 / rows as f64).then_some((rows, cells / rows))
}
