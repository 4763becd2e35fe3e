//! Fuzz targets: each takes any bytes, and panics only on a bug.

/// Output of nccl-tests: parsed results are finite, as JSON requires.
pub fn nccl_output(bytes: &[u8]) {
    let Ok(run) = crate::nccl::read(&String::from_utf8_lossy(bytes)) else { return };
    let halves =
        run.collective.rows.iter().flat_map(|row| row.out_of_place.iter().chain(&row.in_place));
    for half in halves {
        assert!(half.time_us.is_finite() && half.bus_gb_per_second.is_finite());
    }
    assert!(
        run.average().is_none_or(f64::is_finite) && run.peak().is_none_or(|(_, peak)| peak >= 0.0)
    );
}
