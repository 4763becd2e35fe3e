//! libfabric, as users ask for it: by its tcp provider, which every libfabric has, and without any libfabric.

use super::*;

#[track_caller]
fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// The program where there is no libfabric, whatever this machine has.
fn without_libfabric(arguments: &[&str]) -> Command {
    let mut command = wirelane(arguments);
    command.env("WIRELANE_LIBFABRIC", "/nowhere/libfabric.so.1");
    command
}

#[cfg(feature = "ofi")]
#[test]
fn a_store_is_reached_by_libfabric_and_the_status_names_the_provider() {
    let server = Server::start(&["--memory", "64MiB", "--transport", "ofi"]);
    let kv = |arguments: &[&str]| {
        let way = ["kv", "--server", &server.links, "--transport", "ofi"];
        run(&[&way, arguments].concat())
    };
    good(&kv(&["put", "k", "a value"]));
    assert_eq!(good(&kv(&["get", "k"])), "a value");
    let said = stderr(&kv(&["--verbose", "get", "k"]));
    assert!(said.contains("by ofi ("), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("value");
    let value: Vec<u8> = (0..5_000_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&file, &value).expect("a file");
    good(&kv(&["put", "large", "--file", file.to_str().expect("a plain path")]));
    assert!(kv(&["get", "large"]).stdout == value, "a value that goes by writes and reads");
    let ask = ["bench", "--ops", "2000", "--value-size", "65536", "--keys", "20", "--json"];
    let report = json(&good(&kv(&[&ask[..], &["--read-ratio", "0.5", "--depth", "4"]].concat())));
    assert_eq!((&report["transport"], &report["errors"]), (&"ofi".into(), &0.into()));
    let transports = server.status()["transports"].clone();
    let offer = offer(&transports);
    assert_eq!(offer["offered"], true, "{offer}");
    assert!(offer["why"].as_str().is_some_and(|why| why.contains("tcp")), "{offer}");
}

#[cfg(feature = "ofi")]
#[test]
fn a_link_says_which_provider_it_goes_by() {
    let server = Server::start(&["--transport", "ofi"]);
    let output = run(&["connect", &server.links, "--transport", "ofi", "--seconds", "0.1"]);
    let text = good(&output);
    for words in ["lane      ofi: both have tcp", "1 MiB writes ", "1 MiB reads "] {
        assert!(text.contains(words), "`{words}` is missing in: {text}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("tcp.yaml");
    std::fs::write(&settings, "transport:\n  ofi_provider: tcp\n").expect("a file");
    let settings = settings.to_str().expect("a plain path");
    let named = Server::start(&["--config", settings]);
    let connect = ["connect", &named.links, "--config", settings, "--no-measure", "--json"];
    let link = &json(&good(&run(&connect)))["explanation"];
    let lanes: Vec<_> = link["rails"].as_array().expect("rails").iter().collect();
    assert!(lanes.iter().any(|rail| rail["lane"] == "ofi"), "named, so it is planned: {link}");
    assert_eq!(link["lane"], "shm", "on one host there is something better: {link}");
}

#[cfg(feature = "ofi")]
#[test]
fn lanes_are_measured_over_libfabric() {
    let line = ["bench", "bw", "--local", "--transport", "ofi", "--time", "0.2", "--json"];
    let output = run(&line);
    let point = &json(&good(&output))["points"][0];
    assert_eq!(point["transport"], "ofi", "{point}");
}

/// What is not there is one line, and everything else works.
#[test]
fn without_libfabric_the_rest_works_and_the_reason_is_one_line() {
    let mut command = without_libfabric(&["serve", "--http", "127.0.0.1:0"]);
    command.args(["--listen", "127.0.0.1:0", "--memory", "16MiB"]);
    let server = Server::of(command);
    let kv = ["kv", "--server", &server.links];
    let put = [&kv[..], &["put", "k", "v"]].concat();
    good(&without_libfabric(&put).output().expect("it runs"));
    let refused = |arguments: &[&str]| {
        let output = without_libfabric(arguments).output().expect("it runs");
        let text = stderr(&output);
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
        assert!(text.contains("/nowhere/libfabric.so.1"), "{text}");
    };
    refused(&["bench", "bw", "--local", "--transport", "ofi", "--time", "0.1"]);
    let transports = server.status()["transports"].clone();
    assert_eq!(offer(&transports)["offered"], false, "{transports}");

    // Where it is all that may be used there is no way, and both ends say why.
    let mut command = without_libfabric(&["serve", "--http", "127.0.0.1:0"]);
    command.args(["--listen", "127.0.0.1:0", "--memory", "16MiB", "--transport", "ofi"]);
    let server = Server::of(command);
    refused(&["connect", &server.links, "--transport", "ofi"]);
    let transports = server.status()["transports"].clone();
    let why = offer(&transports)["why"].as_str().expect("a reason");
    assert!(why.contains("/nowhere/libfabric.so.1"), "{why}");
}

/// What a server's status says of libfabric.
fn offer(transports: &Value) -> &Value {
    let all = transports.as_array().expect("a list");
    all.iter().find(|offer| offer["name"] == "ofi").expect("libfabric")
}

#[cfg(feature = "ofi")]
#[test]
fn devices_tell_of_libfabric_when_everything_is_asked_for() {
    let text = good(&run(&["devices", "--wide"]));
    assert!(text.contains("libfabric 1.") && text.contains("with --transport ofi: tcp"), "{text}");
    let libfabric = &json(&good(&run(&["devices", "--json"])))["libfabric"];
    assert_eq!(libfabric["usable"], true, "{libfabric}");
    let output = without_libfabric(&["devices", "--json"]).output().expect("it runs");
    let libfabric = &json(&good(&output))["libfabric"];
    assert_eq!((&libfabric["usable"], &libfabric["why"]), (&false.into(), &"no_library".into()));
}
