//! Converts the settings to those of `fabric` for links.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fabric::link::{Config, EndpointSettings, Policy, Transport};
use fabric::session::{Credentials, Keyring};
use fabric::verbs::{self, DeviceRequest, Gid};
use fabric::{ofi, shm, tcp};
use node::Tree;

use crate::links::libfabric;
use crate::output::Failure;
use crate::settings::{Global, Settings};
use access::files::key_file;

/// How peers authenticate, beside the key of the settings.
pub(crate) enum AuthMethod {
    /// Only by the key.
    SharedKey,
    /// A client, by these credentials instead.
    Credentials(Credentials),
    /// By tokens or tickets, which are added later.
    TokensOrTickets,
}

/// The settings of an endpoint. Reads the key file, and opens nothing else.
pub(crate) fn settings(
    global: &Global,
    settings: &Settings,
    method: AuthMethod,
) -> Result<EndpointSettings, Failure> {
    let (keyring, credentials) = secrets(settings, method)?;
    let peer_timeout = milliseconds(settings.peer_timeout_ms);
    let rdma = settings.enable_rdma;
    Ok(EndpointSettings {
        link: link(settings),
        policy: if rdma { settings.rdma_policy } else { Policy::Off },
        peer_policies: if rdma { settings.rdma_peer_policies.clone() } else { Vec::new() },
        transports: transports(settings),
        library: library(global).to_owned(),
        devices: Vec::new(),
        device_request: device_request(settings),
        max_rails: settings.rdma_rails.into(),
        verbs: queue_pair(settings),
        ofi_provider: Some(settings.ofi_provider.clone()).filter(|name| !name.is_empty()),
        ofi: ofi::Config {
            library: global.libfabric.clone(),
            timeout: peer_timeout,
            receive_timeout: peer_timeout,
            ..ofi::Config::default()
        },
        tcp: tcp::Config { peer_timeout, encrypt: settings.tcp_encrypt, ..tcp::Config::default() },
        shm: shm::Config::default(),
        keyring,
        require_authentication: settings.require_authentication,
        credentials,
        ..EndpointSettings::default()
    })
}

/// The transports that the settings allow. libfabric is used if a provider or `--transport` requests it, and on hosts with a
/// device that needs it.
fn transports(settings: &Settings) -> Vec<Transport> {
    let rdma = settings.enable_rdma;
    let is_wanted = |transport: &Transport| match transport {
        Transport::Shm | Transport::Tcp => true,
        Transport::Verbs => rdma,
        Transport::Ofi => {
            let is_needed = || libfabric::has_efa_device(&Tree::live(None));
            !settings.ofi_provider.is_empty() || (rdma && is_needed())
        }
    };
    Transport::ALL.into_iter().filter(is_wanted).collect()
}

/// The libibverbs of the command line, else the system's.
pub(crate) fn library(global: &Global) -> &Path {
    global.libibverbs.as_deref().unwrap_or(Path::new(verbs::LIBRARY))
}

/// The requested device, port, GID and MTU. "Choose" is `None` in `fabric`, and an empty value in the settings.
pub(crate) fn device_request(settings: &Settings) -> DeviceRequest {
    DeviceRequest {
        device: Some(settings.rdma_device.clone()).filter(|name| !name.is_empty()),
        port: Some(settings.rdma_port).filter(|port| *port != 0),
        gid_index: u32::try_from(settings.rdma_gid_index).ok(),
        mtu: settings.rdma_mtu,
    }
}

fn link(settings: &Settings) -> Config {
    let defaults = Config::default();
    let retry_delay = milliseconds(settings.rdma_retry_delay_ms);
    Config {
        op_timeout: milliseconds(settings.rdma_op_timeout_ms),
        retry_delay,
        max_retry_pause: defaults.max_retry_pause.max(retry_delay),
        peer_timeout: milliseconds(settings.peer_timeout_ms),
        ..defaults
    }
}

fn queue_pair(settings: &Settings) -> verbs::Config {
    let mebibytes = |count: u32| (count as usize) << 20;
    let (to_send, to_receive) =
        (mebibytes(settings.rdma_send_buffer_mb), mebibytes(settings.rdma_recv_buffer_mb));
    let srq = settings
        .rdma_use_srq
        .then(|| verbs::SrqConfig { memory: to_receive, ..verbs::SrqConfig::default() });
    verbs::Config {
        srq,
        message_memory: [to_send, to_receive],
        max_inline_data: settings.rdma_max_inline_data,
        max_send_wr: settings.rdma_max_send_wr,
        max_recv_wr: settings.rdma_max_recv_wr,
        max_sge: settings.rdma_max_sge,
        qp_type: verbs::QpType::Rc,
        allowed_gids: settings.allowed_gids.iter().map(|gid| Gid(gid.octets())).collect(),
        use_event_channel: settings.rdma_use_event_channel,
        traffic_class: settings.rdma_traffic_class,
        service_level: settings.rdma_service_level,
        pkey_index: settings.rdma_pkey_index,
        adaptive_routing: settings.rdma_adaptive_routing,
        timeout: settings.rdma_timeout,
        retry_count: settings.rdma_retry_count,
        ..verbs::Config::default()
    }
}

/// The keys that peers are verified with, and the credentials of this end.
fn secrets(settings: &Settings, method: AuthMethod) -> Result<(Keyring, Credentials), Failure> {
    let keyring = Keyring::new();
    if settings.key_file.is_empty() {
        match method {
            AuthMethod::Credentials(credentials) => return Ok((keyring, credentials)),
            AuthMethod::TokensOrTickets => return Ok((keyring, Credentials::None)),
            AuthMethod::SharedKey => {}
        }
        if settings.tcp_encrypt {
            let text = "transport.tcp_encrypt is true, but there is no key to encrypt with: set \
                        security.rdma.key_file, or pass --token-file";
            return Err(Failure::usage(text));
        }
        if settings.require_authentication {
            let text = "security.rdma.require_authentication is true, but there is no key to authenticate peers \
                        with: set security.rdma.key_file, or pass --token-file";
            return Err(Failure::usage(text));
        }
        return Ok((keyring, Credentials::None));
    }
    let key = key_file::read(&PathBuf::from(&settings.key_file))?;
    keyring.add(key.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((
        keyring,
        if let AuthMethod::Credentials(credentials) = method {
            credentials
        } else {
            Credentials::Key(key)
        },
    ))
}

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}
