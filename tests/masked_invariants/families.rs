//! The mask families with the definition of their weights, and masks that are special cases of each other.

use crate::support;
use std::sync::Arc;
use wgattn::attention::{Mask, MaskedAttention, Masks, ScanMask};
use wgattn::graph::Graph;
use wgattn::kernels::mask::path::Path;
use wgattn::mask::operator::{
    BlockDiagonal, Dense, LowRank, Scaled, SharedMask, Sum, Toeplitz, bordered, hadamard,
};
use wgattn::mask::{Distance, Profile, RelativeTable};
use wgattn::tensor::DType;

/// Batch elements, heads, tokens, features and value columns of every trial; odd where a kernel might want even numbers.
pub(crate) const B: u32 = 2;
pub(crate) const H: u32 = 2;
pub(crate) const N: u32 = 60;
pub(crate) const R: u32 = 5;
pub(crate) const E: u32 = 6;

/// Packed sequences: more than seven, two of them empty, one across token 32 where chunks of scans meet, seven tokens of slack.
pub(crate) const SEGMENTS: [u32; 11] = [0, 5, 6, 6, 23, 27, 27, 41, 48, 50, 53];

/// How attention is recorded.
#[derive(Clone)]
pub(crate) enum How {
    Attention(MaskedAttention),
    Operator(SharedMask),
}

/// A mask with a name.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) how: How,
    /// Tokens that are kept, as keys and as queries.
    pub(crate) keep: Option<Vec<u8>>,
}

/// The segment of a token; `None` in the slack.
pub(crate) fn segment(offsets: &[u32], token: u32) -> Option<usize> {
    offsets.windows(2).position(|w| (w[0]..w[1]).contains(&token))
}

impl Family {
    pub(crate) fn new(name: impl Into<String>, how: How) -> Self {
        Self { name: name.into(), how, keep: None }
    }

    pub(crate) fn scan(name: &str, mask: ScanMask) -> Self {
        Self::new(name, How::Attention(MaskedAttention::of(Mask::Scan(mask))))
    }

    /// Every fourth token left out, the last three as well.
    pub(crate) fn padded(mut self) -> Self {
        self.name += "_padded";
        self.keep = Some((0..N).map(|t| u8::from(t % 4 != 1 && t < N - 3)).collect());
        self
    }

    pub(crate) fn packed(mut self) -> Self {
        self.name += "_packed";
        if let How::Attention(attention) = &mut self.how {
            attention.segments = Some(SEGMENTS.to_vec());
        }
        self
    }

    pub(crate) fn segments(&self) -> Option<&[u32]> {
        match &self.how {
            How::Attention(attention) => attention.segments.as_deref(),
            How::Operator(_) => None,
        }
    }

    pub(crate) fn path(&self) -> Path {
        match &self.how {
            How::Attention(attention) => attention.path,
            How::Operator(_) => Path::Auto,
        }
    }

    /// The definition: weight of key `j` for query `i`.
    pub(crate) fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        if self.keep.as_ref().is_some_and(|k| k[i as usize] == 0 || k[j as usize] == 0) {
            return 0.0;
        }
        let attention = match &self.how {
            How::Operator(mask) => return mask.weight(head, i, j),
            How::Attention(attention) => attention,
        };
        if let Some(offsets) = &attention.segments {
            let (a, b) = (segment(offsets, i), segment(offsets, j));
            if a.is_none() || a != b {
                return 0.0;
            }
        }
        let offset = i64::from(i) - i64::from(j);
        let of_head = |list: &[f32]| f64::from(list[head as usize % list.len()]);
        match &attention.mask {
            Mask::Scan(ScanMask::None) => 1.0,
            Mask::Scan(ScanMask::Causal) => f64::from(u8::from(offset >= 0)),
            Mask::Scan(ScanMask::Decay { decay }) if offset >= 0 => of_head(decay).powi(offset as i32),
            Mask::Scan(ScanMask::Decay { .. }) => 0.0,
            Mask::Scan(ScanMask::TwoSided { decay }) => of_head(decay).powi(offset.abs() as i32),
            Mask::Scan(ScanMask::Separable { sides, rates }) => {
                let [_, rows, cols] = *sides;
                let place = |t: u32| [t / (rows * cols), t / cols % rows, t % cols];
                let (query, key, rate) = (place(i), place(j), rates[head as usize % rates.len()]);
                let steps = (0..3).map(|axis| {
                    // What the device is given is e^−λ rounded to f32.
                    let decay = f64::from((-f64::from(rate[axis])).exp() as f32);
                    decay.powi(query[axis].abs_diff(key[axis]) as i32)
                });
                steps.product()
            }
            Mask::Table { table, .. } if attention.segments.is_some() => {
                f64::from(table.entry(head, [0, 0, offset]))
            }
            Mask::Table { table, globals } => match (i.checked_sub(*globals), j.checked_sub(*globals)) {
                (Some(i), Some(j)) => f64::from(table.weight(head, i, j)),
                _ => 1.0,
            },
        }
    }

    /// Whether transforms do the multiplying: their noise goes to all rows.
    pub(crate) fn by_transforms(&self) -> bool {
        !matches!(self.path(), Path::Auto | Path::Pairs)
    }

    /// Whether no query sees a later key.
    pub(crate) fn is_causal(&self) -> bool {
        (0..N).all(|i| (i + 1..N).all(|j| (0..H).all(|head| self.weight(head, i, j) == 0.0)))
    }

    /// Whether token `i` sees a key.
    pub(crate) fn has_key(&self, head: u32, i: u32) -> bool {
        (0..N).any(|j| self.weight(head, i, j) != 0.0)
    }

    /// Tokens whose numbers must not matter: left out, or of no segment.
    pub(crate) fn unused(&self) -> Vec<u32> {
        let slack = |t: u32| self.segments().is_some_and(|s| segment(s, t).is_none());
        let left_out = |t: u32| self.keep.as_ref().is_some_and(|k| k[t as usize] == 0);
        (0..N).filter(|t| slack(*t) || left_out(*t)).collect()
    }

    /// The same mask times a number; scans have none to scale.
    pub(crate) fn times(&self, factor: f32) -> Option<Self> {
        let how = match &self.how {
            How::Operator(mask) => {
                let all =
                    LowRank::new(N, 1, vec![factor; N as usize], vec![1.0; N as usize]).expect("factors");
                How::Operator(Arc::new(Scaled::new(Arc::clone(mask), all).expect("the same tokens")))
            }
            How::Attention(attention) => match &attention.mask {
                Mask::Table { table, globals: 0 } => {
                    let values = table.values().iter().map(|x| factor * x).collect();
                    let table = RelativeTable::new(&table.sides(), table.heads(), values).expect("a table");
                    How::Attention(MaskedAttention { mask: Mask::table(table), ..attention.clone() })
                }
                // Global tokens weigh 1 whatever the table holds.
                Mask::Table { .. } | Mask::Scan(_) => return None,
            },
        };
        Some(Self { how, ..self.clone() })
    }
}

/// A table with weights from 0.1 to 1, the same in no two directions.
pub(crate) fn lopsided(sides: &[u32], heads: u32) -> RelativeTable {
    RelativeTable::from_fn(sides, heads, |h, [a, b, c]| {
        0.55 + 0.45 * (1.3 * a as f64 + 0.7 * b as f64 + 0.31 * c as f64 + f64::from(h)).sin()
    })
    .expect("a table")
}

pub(crate) fn table_attention(table: RelativeTable, globals: u32, path: Path) -> MaskedAttention {
    MaskedAttention { path, ..MaskedAttention::of(Mask::Table { table, globals }) }
}

/// The ways through a table.
pub(crate) const WAYS: [Path; 3] = [Path::Pairs, Path::Passes, Path::Fused];

/// A table every way.
pub(crate) fn every_way(name: &str, table: &RelativeTable) -> [Family; WAYS.len()] {
    WAYS.map(|path| {
        Family::new(format!("{name}_{path}"), How::Attention(table_attention(table.clone(), 0, path)))
    })
}

/// A family pair by pair, and by the other ways where they are not refused as unsupported.
pub(crate) fn supported_ways(name: &str, family: impl Fn(&str, Path) -> Family) -> Vec<Family> {
    let supported = |family: &Family| {
        let mut graph = Graph::new("is it refused");
        let [q, k, v] = [R, R, E].map(|x| graph.input("x", [B, H, N, x], DType::F32));
        let How::Attention(attention) = &family.how else { return true };
        attention.path == Path::Pairs || attention.record(&mut graph, (q, k, v), Masks::default()).is_ok()
    };
    WAYS.into_iter().map(|path| family(&format!("{name}_{path}"), path)).filter(supported).collect()
}

/// Every family.
pub(crate) fn families() -> Vec<Family> {
    let gammas = vec![0.9, 0.6];
    let rates = vec![[0.3, 0.1, 0.5], [0.0, 0.7, 0.2]];
    let scans = [
        ("none", ScanMask::None),
        ("causal", ScanMask::Causal),
        ("decay", ScanMask::Decay { decay: gammas.clone() }),
        ("two_sided", ScanMask::TwoSided { decay: gammas }),
        ("separable", ScanMask::Separable { sides: [3, 4, 5], rates }),
    ];
    let mut list = Vec::new();
    for (name, mask) in scans {
        let family = Family::scan(name, mask);
        list.push(family.clone().padded());
        if name != "separable" {
            list.push(family.clone().packed());
            list.push(family.clone().packed().padded());
        }
        list.push(family);
    }

    let from_fn = |sides: &[u32], heads, f: &dyn Fn(u32, [i64; 3]) -> f64| {
        RelativeTable::from_fn(sides, heads, f).expect("a table")
    };
    let ring: Vec<f32> = (0..N).map(|i| 0.1 + (0.37 * i as f32).sin().abs()).collect();
    let biases: Vec<f32> = support::random(9, [32 * H]).to_f32();
    let alibi = RelativeTable::alibi(N, &[0.5, 0.0625]).expect("a table");
    let causal = |sides: &[u32]| RelativeTable::causal(sides).expect("a table");
    let tables = [
        ("line", lopsided(&[N], 1)),
        ("plane", lopsided(&[6, 10], 1)),
        ("space", lopsided(&[3, 4, 5], 1)),
        ("line_per_head", lopsided(&[N], H)),
        ("space_per_head", lopsided(&[3, 4, 5], H)),
        ("torus", RelativeTable::torus(&[6, 10], 1, &ring).expect("a table")),
        ("wrapped", lopsided(&[6, 10], 1).wrapped().expect("a table")),
        // Neither the query itself nor, at the end, any key.
        ("window", from_fn(&[N], 1, &|_, [_, _, o]| f64::from(u8::from((-6..=-2).contains(&o))))),
        ("disc", RelativeTable::profile(&[6, 10], Distance::L2, Profile::Window, 2.5).expect("a table")),
        ("bias_t5", RelativeTable::t5(N, 32, H, 50, &biases).expect("a table")),
        ("bias_alibi", alibi.clone()),
        ("causal_line", causal(&[N])),
        ("causal_plane", causal(&[6, 10])),
        ("causal_space", causal(&[3, 4, 5])),
        ("causal_alibi", alibi.times(&causal(&[N])).expect("a table")),
    ];
    for (name, table) in &tables {
        for family in every_way(name, table) {
            if ["plane", "window", "line_per_head", "causal_line"].contains(name) {
                list.push(family.clone().padded());
            }
            list.push(family);
        }
    }
    let globals = |heads| {
        move |name: &str, path| {
            Family::new(name, How::Attention(table_attention(lopsided(&[7, 8], heads), 4, path)))
        }
    };
    let packed = |table: RelativeTable| {
        move |name: &str, path| {
            Family::new(name, How::Attention(table_attention(table.clone(), 0, path))).packed()
        }
    };
    for family in supported_ways("globals", globals(1))
        .into_iter()
        .chain(supported_ways("globals_per_head", globals(H)))
        .chain(supported_ways("line", packed(lopsided(&[20], 1))))
        .chain(supported_ways("line_per_head", packed(lopsided(&[17], H))))
        .chain(supported_ways("causal_line", packed(causal(&[17]))))
    {
        list.push(family.clone().padded());
        list.push(family);
    }

    let shared = |table: RelativeTable| -> SharedMask { Arc::new(Toeplitz(table)) };
    let gates: Vec<f32> = (0..N).map(|t| 0.2 + 0.01 * t as f32).collect();
    let falling = gates.iter().map(|gate| 1.1 - gate).collect();
    let gated = LowRank::new(N, 1, gates, falling).expect("factors");
    let blocks: Vec<SharedMask> = vec![
        shared(lopsided(&[15], 1)),
        Arc::new(LowRank::ones(7).expect("ones")),
        shared(lopsided(&[2, 19], 1)),
    ];
    let lower = (0..N * N).map(|at| if at % N > at / N { 0.0 } else { 0.5 + (at % 7) as f32 }).collect();
    let both = hadamard(&shared(lopsided(&[6, 10], 1)), &(Arc::new(gated.clone()) as SharedMask));
    let sum = vec![shared(lopsided(&[N], H)), Arc::new(LowRank::ones(N).expect("ones")) as SharedMask];
    let operators: [(&str, SharedMask); 8] = [
        ("operator_table", shared(lopsided(&[3, 4, 5], 1))),
        ("operator_low_rank", Arc::new(LowRank::border(N, 3).expect("a border"))),
        ("operator_globals", bordered(shared(lopsided(&[7, 8], 1)), 4).expect("a border")),
        ("operator_blocks", Arc::new(BlockDiagonal::new(blocks).expect("blocks"))),
        ("operator_scaled", Arc::new(Scaled::new(shared(lopsided(&[N], H)), gated).expect("a product"))),
        ("operator_hadamard", both.expect("a fast product")),
        ("operator_sum", Arc::new(Sum::new(sum).expect("a sum"))),
        ("operator_dense", Arc::new(Dense::new(1, N, lower).expect("weights"))),
    ];
    for (name, mask) in operators {
        let family = Family::new(name, How::Operator(mask));
        if name == "operator_table" || name == "operator_blocks" {
            list.push(family.clone().padded());
        }
        list.push(family);
    }
    list
}

/// A table with the query's own weight alone.
pub(crate) fn delta(sides: &[u32], heads: u32) -> RelativeTable {
    RelativeTable::from_fn(sides, heads, |_, o| f64::from(u8::from(o == [0; 3]))).expect("a table")
}

/// Masks under which every query sees itself alone.
pub(crate) fn identities() -> Vec<Family> {
    let scan = Family::scan;
    let alone = |mask| {
        let attention = MaskedAttention::of(Mask::Scan(mask));
        How::Attention(MaskedAttention { segments: Some((0..=N).collect()), ..attention })
    };
    let causal = RelativeTable::causal(&[3, 4, 5]).expect("a table");
    let unit = (0..N * N).map(|at| f32::from(u8::from(at % (N + 1) == 0))).collect();
    let ring: Vec<f32> = (0..N).map(|t| f32::from(u8::from(t == 0))).collect();
    let point = RelativeTable::profile(&[6, 10], Distance::LInf, Profile::Window, 0.5).expect("a table");
    let mut list = vec![
        scan("decay", ScanMask::Decay { decay: vec![0.0] }),
        scan("two_sided", ScanMask::TwoSided { decay: vec![0.0; 2] }),
        scan("separable", ScanMask::Separable { sides: [3, 4, 5], rates: vec![[f32::MAX; 3]] }),
        Family::new("none_packed", alone(ScanMask::None)),
        Family::new("causal_packed", alone(ScanMask::Causal)),
        Family::new("operator_table", How::Operator(Arc::new(Toeplitz(delta(&[6, 10], 1))))),
        Family::new("operator_dense", How::Operator(Arc::new(Dense::new(1, N, unit).expect("weights")))),
    ];
    for (name, table) in [
        ("line", delta(&[N], 1)),
        ("plane", delta(&[6, 10], 1)),
        ("space", delta(&[3, 4, 5], 1)),
        ("space_per_head", delta(&[3, 4, 5], H)),
        ("torus", RelativeTable::torus(&[6, 10], 1, &ring).expect("a table")),
        ("window", point),
        // What comes not before and not after.
        ("causal", causal.times(&causal.transposed()).expect("a table")),
    ] {
        list.extend(every_way(name, &table));
    }
    list.extend(supported_ways("line", |name, path| {
        Family::new(name, How::Attention(table_attention(delta(&[17], 1), 0, path))).packed()
    }));
    list
}

/// Masks whose weights are all equal.
pub(crate) fn all_ones() -> Vec<Family> {
    let scan = Family::scan;
    let ones = |sides: &[u32]| RelativeTable::ones(sides).expect("a table");
    let whole = |attention: MaskedAttention| {
        How::Attention(MaskedAttention { segments: Some(vec![0, N]), ..attention })
    };
    let full = Dense::new(1, N, vec![3.0; (N * N) as usize]).expect("weights");
    let bordered = bordered(Arc::new(Toeplitz(ones(&[7, 8]))), 4).expect("a border");
    let mut list = vec![
        scan("two_sided", ScanMask::TwoSided { decay: vec![1.0] }),
        scan("separable", ScanMask::Separable { sides: [3, 4, 5], rates: vec![[0.0; 3]] }),
        Family::new("none_packed", whole(MaskedAttention::of(Mask::Scan(ScanMask::None)))),
        Family::new("operator_low_rank", How::Operator(Arc::new(LowRank::ones(N).expect("ones")))),
        Family::new("operator_dense", How::Operator(Arc::new(full))),
        Family::new("operator_globals", How::Operator(bordered)),
    ];
    let wide = RelativeTable::profile(&[6, 10], Distance::L1, Profile::Window, 99.0).expect("a table");
    let flat = RelativeTable::from_bias(&[N], H, &vec![-4.0; 2 * (2 * N as usize - 1)]).expect("a table");
    for (name, table) in [
        ("line", ones(&[N])),
        ("plane", ones(&[6, 10])),
        ("space", ones(&[3, 4, 5])),
        ("torus", RelativeTable::torus(&[6, 10], 1, &[0.5; N as usize]).expect("a table")),
        ("window", wide),
        ("bias", flat),
        ("bias_alibi", RelativeTable::alibi(N, &[0.0; H as usize]).expect("a table")),
    ] {
        list.extend(every_way(name, &table));
    }
    list.extend(supported_ways("globals", |name, path| {
        Family::new(name, How::Attention(table_attention(ones(&[7, 8]), 4, path)))
    }));
    list.extend(supported_ways("line_packed", |name, path| {
        Family::new(name, whole(table_attention(ones(&[N]), 0, path)))
    }));
    list
}

/// Pairs of masks that are the same: sequences as grids of one row, scans as tables, packed sequences and global tokens as operators.
pub(crate) fn special_cases() -> Vec<(String, Family, Family)> {
    let gammas = [0.9_f32, 0.6];
    let rates = [[0.3_f32, 0.1, 0.5], [0.0, 0.7, 0.2]];
    let from_fn = |sides: &[u32], f: &dyn Fn(u32, [i64; 3]) -> f64| {
        RelativeTable::from_fn(sides, H, f).expect("a table")
    };
    let power = |h: u32, steps: i64| f64::from(gammas[h as usize]).powi(steps as i32);
    let line = |o: i64| 0.55 + 0.45 * (0.31 * o as f64).sin();
    let on_axis = |sides: &[u32]| from_fn(sides, &|_, o| line(o[0] + o[1] + o[2]));
    let causal = Family::scan("causal", ScanMask::Causal);
    let plain = Family::new("line", How::Attention(table_attention(on_axis(&[N]), 0, Path::Pairs)));
    let mut list = Vec::new();
    let mut add = |what: &str, table: RelativeTable, same: &Family| {
        for family in every_way(what, &table) {
            list.push((family.name.clone(), family, same.clone()));
        }
    };
    // 1-D relative positions by the machinery of more axes.
    add("a_line_as_a_column", on_axis(&[N, 1]), &plain);
    add("a_line_as_the_first_axis", on_axis(&[N, 1, 1]), &plain);
    add("a_line_as_the_middle_axis", on_axis(&[1, N, 1]), &plain);
    // Causal attention by tables of one, two and three axes.
    for (what, sides) in [
        ("causal_line", &[N][..]),
        ("causal_column", &[N, 1]),
        ("causal_first_axis", &[N, 1, 1]),
        ("causal_raster_of_a_plane", &[6, 10]),
        ("causal_raster_of_space", &[3, 4, 5]),
    ] {
        add(what, RelativeTable::causal(sides).expect("a table"), &causal);
    }
    let decay = from_fn(&[N], &|h, [_, _, o]| if o < 0 { 0.0 } else { power(h, o) });
    let mask = ScanMask::Decay { decay: gammas.to_vec() };
    add("decay_as_a_table", decay, &Family::scan("decay", mask));
    let mask = ScanMask::TwoSided { decay: gammas.to_vec() };
    add(
        "two_sided_as_a_table",
        from_fn(&[N], &|h, o| power(h, o[2].abs())),
        &Family::scan("two_sided", mask),
    );
    let falls = |h: u32, o: [i64; 3]| {
        (-(0..3).map(|a| f64::from(rates[h as usize][a]) * o[a].abs() as f64).sum::<f64>()).exp()
    };
    let mask = ScanMask::Separable { sides: [3, 4, 5], rates: rates.to_vec() };
    add("separable_as_a_table", from_fn(&[3, 4, 5], &falls), &Family::scan("separable", mask));
    // Weights in the own row alone: one sequence per row.
    let rows = from_fn(&[6, 10], &|_, [_, row, o]| if row == 0 { line(o) } else { 0.0 });
    let attention = table_attention(from_fn(&[10], &|_, o| line(o[2])), 0, Path::Pairs);
    let segments = Some((0..=6).map(|row| 10 * row).collect());
    let sequences = Family::new("rows", How::Attention(MaskedAttention { segments, ..attention }));
    add("rows_as_packed_sequences", rows, &sequences);
    // Global tokens and packed sequences as operators.
    let border = bordered(Arc::new(Toeplitz(lopsided(&[7, 8], 1))), 4).expect("a border");
    let border = Family::new("border", How::Operator(border));
    for family in supported_ways("globals_as_a_border", |name, path| {
        Family::new(name, How::Attention(table_attention(lopsided(&[7, 8], 1), 4, path)))
    }) {
        list.push((family.name.clone(), family, border.clone()));
    }
    let cut = |length: u32| -> SharedMask {
        match length {
            0 => Arc::new(LowRank::zeros(0).expect("no token")),
            _ => {
                Arc::new(Toeplitz(RelativeTable::from_fn(&[length], 1, |_, o| line(o[2])).expect("a table")))
            }
        }
    };
    let lengths = SEGMENTS.windows(2).map(|w| w[1] - w[0]);
    let slack: SharedMask = Arc::new(LowRank::zeros(N - 53).expect("slack"));
    let blocks = BlockDiagonal::new(lengths.map(cut).chain(Some(slack)).collect()).expect("blocks");
    let blocks = Family::new("blocks", How::Operator(Arc::new(blocks)));
    for family in supported_ways("packed_sequences_as_blocks", |name, path| {
        let table = RelativeTable::from_fn(&[17], 1, |_, o| line(o[2])).expect("a table");
        Family::new(name, How::Attention(table_attention(table, 0, path))).packed()
    }) {
        list.push((family.name.clone(), family, blocks.clone()));
    }
    list
}
