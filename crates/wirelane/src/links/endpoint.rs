//! The settings as `fabric` takes them for links, in one place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fabric::link::{Class, Config, Policy, Settings as LinkSettings};
use fabric::session::{Credentials, Keyring};
use fabric::verbs::{self, DeviceRequest, Gid};
use fabric::{ofi, shm, tcp};
use node::Tree;

use crate::links::libfabric;
use crate::output::Failure;
use crate::settings::Global;
use crate::settings::{QpType, Settings};
use access::files::key_file;

/// By what this end is known to others, and they to it, beside the settings' key.
pub(crate) enum AuthMethod {
    /// By nothing else.
    ByKey,
    /// A caller, by this instead.
    As(Credentials),
    /// A server, to which others will be known by tokens or tickets.
    Others,
}

/// What an endpoint of this program is made of. Reads the key's file and opens nothing else.
pub(crate) fn settings(
    global: &Global,
    settings: &Settings,
    known: AuthMethod,
) -> Result<LinkSettings, Failure> {
    let (keyring, credentials) = secrets(settings, known)?;
    let silence = milliseconds(settings.peer_timeout_ms);
    let rdma = settings.enable_rdma;
    Ok(LinkSettings {
        link: link(settings),
        policy: if rdma { settings.rdma_policy } else { Policy::Off },
        peer_policies: if rdma { settings.rdma_peer_policies.clone() } else { Vec::new() },
        classes: classes(settings),
        library: library(global).to_owned(),
        devices: Vec::new(),
        device_request: wish(settings),
        max_rails: settings.rdma_rails.into(),
        verbs: queue_pair(settings),
        ofi_provider: Some(settings.ofi_provider.clone()).filter(|name| !name.is_empty()),
        ofi: ofi::Config {
            library: global.libfabric.clone(),
            timeout: silence,
            receive_timeout: silence,
            ..ofi::Config::default()
        },
        tcp: tcp::Config {
            peer_timeout: silence,
            encrypt: settings.tcp_encrypt,
            ..tcp::Config::default()
        },
        shm: shm::Config::default(),
        keyring,
        require_authentication: settings.require_authentication,
        credentials,
        ..LinkSettings::default()
    })
}

/// Which kinds of ways the settings allow. libfabric is loaded where it is asked for by a provider's name or
/// `--transport`, and where there is a device that needs it.
fn classes(settings: &Settings) -> Vec<Class> {
    let rdma = settings.enable_rdma;
    let is_wanted = |class: &Class| match class {
        Class::Shm | Class::Tcp => true,
        Class::Verbs => rdma,
        Class::Ofi => {
            let called_for = || libfabric::has_efa_device(&Tree::live(None));
            !settings.ofi_provider.is_empty() || (rdma && called_for())
        }
    };
    Class::ALL.into_iter().filter(is_wanted).collect()
}

/// The libibverbs that the user named, else the system's.
pub(crate) fn library(global: &Global) -> &Path {
    global.libibverbs.as_deref().unwrap_or(Path::new(verbs::LIBRARY))
}

/// Which device, port, GID and MTU: `fabric`'s "choose" is no value, the settings' an empty one.
pub(crate) fn wish(settings: &Settings) -> DeviceRequest {
    DeviceRequest {
        device: Some(settings.rdma_device.clone()).filter(|name| !name.is_empty()),
        port: Some(settings.rdma_port).filter(|port| *port != 0),
        gid_index: u32::try_from(settings.rdma_gid_index).ok(),
        mtu: settings.rdma_mtu,
    }
}

fn link(settings: &Settings) -> Config {
    let defaults = Config::default();
    let retry_pause = milliseconds(settings.rdma_settle_ms);
    Config {
        op_timeout: milliseconds(settings.rdma_op_timeout_ms),
        retry_pause,
        max_retry_pause: defaults.max_retry_pause.max(retry_pause),
        peer_timeout: milliseconds(settings.peer_timeout_ms),
        ..defaults
    }
}

fn queue_pair(settings: &Settings) -> verbs::Config {
    verbs::Config {
        max_inline_data: settings.rdma_max_inline_data,
        max_send_wr: settings.rdma_max_send_wr,
        max_recv_wr: settings.rdma_max_recv_wr,
        max_sge: settings.rdma_max_sge,
        qp_type: match settings.rdma_qp_type {
            QpType::Rc => verbs::QpType::Rc,
            QpType::Ud => verbs::QpType::Ud,
            QpType::Dc => verbs::QpType::Dc,
        },
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

/// Whom we know, and as whom we call.
fn secrets(settings: &Settings, known: AuthMethod) -> Result<(Keyring, Credentials), Failure> {
    let keyring = Keyring::new();
    if settings.key_file.is_empty() {
        match known {
            AuthMethod::Credentials(credentials) => return Ok((keyring, credentials)),
            AuthMethod::TokensOrTickets => return Ok((keyring, Credentials::None)),
            AuthMethod::SharedKey => {}
        }
        if settings.tcp_encrypt {
            let text = "transport.tcp_encrypt is true, and there is no key to encrypt with: set \
                        security.rdma.key_file, or give --token-file";
            return Err(Failure::usage(text));
        }
        if settings.require_authentication {
            let text = "security.rdma.require_authentication is true, and there is no key by which peers \
                        could be known: set security.rdma.key_file, or give --token-file";
            return Err(Failure::usage(text));
        }
        return Ok((keyring, Credentials::None));
    }
    let key = key_file::read(&PathBuf::from(&settings.key_file))?;
    keyring.add(key.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((
        keyring,
        if let AuthMethod::Credentials(credentials) = known {
            credentials
        } else {
            Credentials::Key(key)
        },
    ))
}

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(number.into())
}
