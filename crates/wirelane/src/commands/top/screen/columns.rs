//! Selects the columns that fit the width.

use ratatui::layout::Constraint;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column<K> {
    pub(super) kind: K,
    pub(super) title: &'static str,
    /// Minimum width: if there is less, the column is left out.
    pub(super) min_width: u16,
    /// Maximum width.
    pub(super) max_width: u16,
    /// Priority: lower is more important. Columns with equal rank share extra width equally.
    pub(super) rank: u8,
}

/// The columns that fit, in order, each with its width. The most important ones get their minimum first, then extra
/// width.
pub(super) fn fit<K: Copy>(columns: &[Column<K>], width: u16) -> Vec<(Column<K>, u16)> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|at| columns[*at].rank);
    let mut widths = vec![0; columns.len()];
    let mut left = i32::from(width) + GAP;
    for at in &by_rank {
        let need = i32::from(columns[*at].min_width) + GAP;
        if need <= left {
            widths[*at] = columns[*at].min_width;
            left -= need;
        }
    }
    for equals in by_rank.chunk_by(|one, other| columns[*one].rank == columns[*other].rank) {
        let share = left / equals.len() as i32;
        for at in equals {
            if widths[*at] == 0 {
                continue;
            }
            let more = i32::from(columns[*at].max_width - columns[*at].min_width).min(share);
            widths[*at] += more as u16;
            left -= more;
        }
    }
    let fitting = columns.iter().copied().zip(widths);
    fitting.filter(|(_, width)| *width > 0).collect()
}

pub(super) fn constraints<K>(columns: &[(Column<K>, u16)]) -> Vec<Constraint> {
    columns.iter().map(|(_, width)| Constraint::Length(*width)).collect()
}

/// Spaces between two columns.
const GAP: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_column_is_left_out_first() {
        let column = |kind, min_width, max_width, rank| Column {
            kind,
            title: "",
            min_width,
            max_width,
            rank,
        };
        let all = [column('a', 8, 8, 0), column('b', 6, 6, 2), column('c', 5, 20, 1)];
        let fitting = |width| -> String {
            fit(&all, width)
                .iter()
                .map(|(column, width)| format!("{}{width} ", column.kind))
                .collect()
        };
        assert_eq!(fitting(8), "a8 ");
        assert_eq!(fitting(14), "a8 c5 ");
        assert_eq!(fitting(18), "a8 c9 ", "b does not fit: c gets its space");
        assert_eq!(fitting(21), "a8 b6 c5 ");
        assert_eq!(fitting(60), "a8 b6 c20 ");
        assert_eq!(fitting(3), "");
        let equals = [column('a', 5, 20, 1), column('b', 5, 20, 1)];
        let widths: Vec<u16> = fit(&equals, 20).iter().map(|(_, width)| *width).collect();
        assert_eq!(widths, [9, 9]);
    }
}
