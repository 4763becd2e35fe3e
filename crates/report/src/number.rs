//! Numbers as text.

/// Bytes in the largest unit that divides them: `64 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or(format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// Gigabits per second: `97.3 Gb/s`, `412 Mb/s`.
pub(crate) fn rate(gbps: f64) -> String {
    match gbps {
        _ if gbps >= 1.0 => format!("{} Gb/s", significant(gbps)),
        _ if gbps >= 1e-3 => format!("{} Mb/s", significant(gbps * 1e3)),
        _ => format!("{} kb/s", significant(gbps * 1e6)),
    }
}

/// Nanoseconds: `650 ns`, `12.5 µs`, `3.4 ms`.
pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        _ if nanoseconds >= 1e9 => format!("{} s", significant(nanoseconds / 1e9)),
        _ if nanoseconds >= 1e6 => format!("{} ms", significant(nanoseconds / 1e6)),
        _ if nanoseconds >= 1e3 => format!("{} µs", significant(nanoseconds / 1e3)),
        _ => format!("{} ns", significant(nanoseconds)),
    }
}

/// A count: `1.25 M`, `850 k`, `12`.
pub(crate) fn count(number: f64) -> String {
    match number {
        _ if number >= 1e9 => format!("{} G", significant(number / 1e9)),
        _ if number >= 1e6 => format!("{} M", significant(number / 1e6)),
        _ if number >= 1e3 => format!("{} k", significant(number / 1e3)),
        _ => significant(number),
    }
}

/// The percentile that one of this many operations exceeds: `p99.9` for 1000, `min` for 1.
pub(crate) fn percentile(one_in: f64) -> String {
    if one_in <= 1.0 {
        return "min".to_owned();
    }
    // As many nines as it has, and a digit for 2 and 5 times a power of ten.
    let digits = ((one_in.log10() - 1e-9).ceil() - 2.0).clamp(0.0, 15.0) as usize;
    format!("p{:.digits$}", 100.0 - 100.0 / one_in)
}

/// Bytes, three digits, for axes: `1.5 MiB`.
pub(crate) fn short_size(bytes: f64) -> String {
    match bytes {
        _ if bytes >= GIB => format!("{} GiB", significant(bytes / GIB)),
        _ if bytes >= MIB => format!("{} MiB", significant(bytes / MIB)),
        _ if bytes >= 1024.0 => format!("{} KiB", significant(bytes / 1024.0)),
        _ => format!("{} B", significant(bytes)),
    }
}

/// A ratio as percent: `97 %`, `0.31 %`.
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() >= 10.0 {
        format!("{percent:.0} %")
    } else {
        format!("{} %", significant(percent))
    }
}

/// A change as percent, with its sign: `+3.2 %`, `−12 %`.
pub(crate) fn change(part: f64) -> String {
    let percent = part * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    let number = format!("{:.digits$}", percent.abs());
    match number.as_str() {
        "0.0" => "±0 %".to_owned(),
        _ if percent < 0.0 => format!("−{number} %"),
        _ => format!("+{number} %"),
    }
}

/// Three significant digits, without trailing zeros.
pub(crate) fn significant(number: f64) -> String {
    let text = digits(number);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Three significant digits with trailing zeros, for columns.
pub(crate) fn digits(number: f64) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    let is_tiny = number != 0.0 && number.abs() < 0.0005;
    if number.abs() >= 1e7 || is_tiny {
        return format!("{number:.1e}");
    }
    let digits = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = MIB * 1024.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(rate(97.34), "97.3 Gb/s");
        assert_eq!(rate(392.6), "393 Gb/s");
        assert_eq!(rate(0.4123), "412 Mb/s");
        assert_eq!(time(880.0), "880 ns");
        assert_eq!(time(12_500.0), "12.5 µs");
        assert_eq!(count(7_654_321.0), "7.65 M");
        assert_eq!(short_size(1_572_864.0), "1.5 MiB");
        assert_eq!(
            [1.0, 2.0, 10.0, 50.0, 100.0, 200.0, 1e3, 5e3, 1e6].map(percentile),
            ["min", "p50", "p90", "p98", "p99", "p99.5", "p99.9", "p99.98", "p99.9999"]
        );
        assert_eq!((percent(0.97), percent(0.0031)), ("97 %".into(), "0.31 %".into()));
        assert_eq!((change(-0.123), change(0.0321)), ("−12 %".into(), "+3.2 %".into()));
        assert_eq!((change(0.0001), change(0.0999)), ("±0 %".into(), "+10 %".into()));
        assert_eq!((significant(f64::INFINITY), rate(1e308)), ("–".into(), "1.0e308 Gb/s".into()));
    }
}
