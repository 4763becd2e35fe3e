//! Lines as programs print them.

use super::*;

#[track_caller]
fn one(text: &str) -> ErrorLine {
    let mut errors = parse(text);
    assert_eq!(errors.len(), 1, "{text}: {errors:?}");
    errors.remove(0)
}

#[track_caller]
fn completion(line: &str, source: Source, status: u32, vendor: Option<u32>) {
    let error = one(line);
    assert_eq!(error.source, source, "{line}");
    let completion = error.completion.unwrap_or_else(|| panic!("no completion in {line}"));
    let found = completion.vendor.map(|vendor| vendor.decimal);
    assert_eq!((completion.status.number, found), (status, vendor), "{line}");
}

#[test]
fn a_receiver_that_is_not_ready_is_not_a_lost_packet() {
    for line in [
        "QP 12: RNR retry counter exceeded",
        "completion with status IBV_WC_RNR_RETRY_EXC_ERR",
        "wc status RNR_RETRY_EXC_ERR",
    ] {
        let class = parse(line).into_iter().next().map(|error| error.class);
        assert_eq!(class, Some(ErrorClass::NotReady), "{line}");
    }
    let line = "completion with status IBV_WC_RETRY_EXC_ERR";
    assert_eq!(parse(line)[0].class, ErrorClass::RetryExceeded);
}

#[test]
fn completions_of_every_program() {
    let nccl = Source::Nccl;
    completion(
        "node1:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer \
         10.2.0.5<33092> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00::1 \
         remoteGidsfd00::2",
        nccl,
        12,
        Some(129),
    );
    completion(
        "transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> \
         with error 12, opcode 0, len 0, vendor err 129 (Recv)",
        nccl,
        12,
        Some(129),
    );
    completion(
        "NCCL WARN NET/IB: Got completion from peer 10.99.91.63<51161> with status=4 opcode=32614 \
         len=32614 vendor err 81 (Send) hca mlx5_1",
        nccl,
        4,
        Some(81),
    );
    completion(
        "NCCL WARN NET/IB: Got completion from peer 10.1.1.1<1> with \
         status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 hca mlx5_1",
        nccl,
        12,
        Some(129),
    );
    completion("IBV_WC_LOC_PROT_ERR(4) vendor_err=81", Source::Verbs, 4, Some(81));
    completion(
        "[mgmt:24113:0:24113] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE \
         (synd 0x15 vend 0x81 hw_synd 0/0)",
        Source::Ucx,
        12,
        Some(0x81),
    );
    completion(
        "ib_mlx5_log.c:177 Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/0)",
        Source::Ucx,
        4,
        Some(0x51),
    );
    completion(
        "Remote QP on mlx5_0:1/IB (synd 0x14 vend 0x89 hw_synd 0/0)",
        Source::Ucx,
        11,
        Some(0x89),
    );
    completion(
        "dc_verbs.c:614  UCX  ERROR Send completion with error on qp 0x6214: remote access error \
         syndrome 0x88",
        Source::Ucx,
        10,
        Some(0x88),
    );
    completion("  Failed status 12: wr_id 0 syndrom 0x81", Source::Perftest, 12, Some(0x81));
    completion("  Failed status 4: wr_id 0 syndrom 0x51", Source::Perftest, 4, Some(0x51));
    completion(
        "CQE ERROR wr_id=12 status=12(transport retry counter exceeded) opcode=4 byte_len=0 \
         vendor_err=0xa qp_num=0x2e24",
        Source::Verbs,
        12,
        Some(10),
    );
    completion(
        "infiniband rocep33s0f0: mlx5_poll_one:530:(pid 0): syndrome 0x5, vendor syndrome 0xf9",
        Source::Kernel,
        5,
        Some(0xf9),
    );
    completion("poll cq: local protection error (4)", Source::Verbs, 4, None);
    completion("Completion failed: Work Request Flushed Error", Source::Verbs, 5, None);
}

#[test]
fn lines_without_a_completion() {
    let cases = [
        (
            "ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, \
             on dev mlx5_0:1, curr state INIT, next state RTR",
            Source::Nccl,
            ErrorClass::NoAnswer,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error No such device",
            Source::Nccl,
            ErrorClass::WrongGid,
        ),
        ("NCCL WARN Call to ibv_reg_mr failed", Source::Nccl, ErrorClass::Registration),
        ("NCCL WARN Call to ibv_create_qp failed", Source::Nccl, ErrorClass::Creation),
        ("node:1:1 [0] NCCL INFO NET/IB : No device found.", Source::Nccl, ErrorClass::NoDevice),
        ("NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>", Source::Nccl, ErrorClass::Fallback),
        ("Unable to init the socket connection", Source::Perftest, ErrorClass::OutOfBand),
        ("Couldn't allocate MR", Source::Perftest, ErrorClass::Registration),
        (
            "libfabric:451707:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, \
             message: Invalid address My EFA addr: fi_addr_efa://[fe80::13]:0:1 (7)",
            Source::Libfabric,
            ErrorClass::RemoteAccess,
        ),
        (
            "libfabric: cq error err: 113 prov_errno: 4124 Unresponsive receiver (connection \
             previously established)",
            Source::Libfabric,
            ErrorClass::EfaPeer,
        ),
        (
            "NET/OFI Request completed with error. RC: 22. prov_errno 4",
            Source::Libfabric,
            ErrorClass::EfaPeer,
        ),
        (
            "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:808: ACCESS_REG(0x805) op_mod(0x1) failed, \
             status bad parameter(0x3), syndrome (0x9a6171), err(-22)",
            Source::Kernel,
            ErrorClass::Restricted,
        ),
        (
            "mlx5_core 0000:3b:00.0: poll_health:835:(pid 0): device's health compromised - \
             reached miss count",
            Source::Kernel,
            ErrorClass::NicHealth,
        ),
        (
            "pcieport 0000:00:01.0: AER: Corrected error received: 0000:3b:00.0",
            Source::Kernel,
            ErrorClass::PcieCorrected,
        ),
        (
            "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
            Source::Kernel,
            ErrorClass::Pcie,
        ),
        (
            "pcieport 0000:00:1c.0: DPC: containment event, status:0x1f01 source:0x0000",
            Source::Kernel,
            ErrorClass::Pcie,
        ),
        (
            "mlx5_core 0000:3b:00.0: Port module event[error]: module 0, Cable error, High \
             Temperature",
            Source::Kernel,
            ErrorClass::Cable,
        ),
        (
            "mlx5_core 0000:3b:00.0: mlx5_pcie_event:302:(pid 1): Detected insufficient power on \
             the PCIe slot (27W).",
            Source::Kernel,
            ErrorClass::SlotPower,
        ),
        ("mlx5_core 0000:3b:00.0 ens1np0: Link down", Source::Kernel, ErrorClass::PortDown),
        (
            "NET/IB : mlx5_0:1 async fatal event on QP 0x7f: local access violation work queue error",
            Source::Nccl,
            ErrorClass::RemoteAccess,
        ),
        (
            "Completion with error: Operation canceled (err 125 prov_errno 5)",
            Source::Libfabric,
            ErrorClass::Flushed,
        ),
        (
            "fi_getinfo failed with code -61 (No data available)",
            Source::Verbs,
            ErrorClass::NoDevice,
        ),
        (
            "libibverbs: Warning: no userspace device-specific driver found for \
             /sys/class/infiniband_verbs/uverbs0",
            Source::Verbs,
            ErrorClass::NoLibrary,
        ),
        (
            "gdrdrv:__gdrdrv_pin_buffer:nvidia_p2p_get_pages(va=1 len=65536) failed [ret = -22]",
            Source::Verbs,
            ErrorClass::GpuRegistration,
        ),
        (
            "UCX  WARN  transport 'ib' is not available, please use one or more of: cma, self, tcp",
            Source::Ucx,
            ErrorClass::NoDevice,
        ),
        (
            "mlx5_core 0000:81:00.0: wait_func:964:(pid 1): ENABLE_HCA(0x104) timeout. Will cause a \
             leak of a command resource",
            Source::Kernel,
            ErrorClass::Command,
        ),
        (
            "NCCL WARN NET/IB : mlx5_0:1 Got async fatal event: local catastrophic error",
            Source::Nccl,
            ErrorClass::DeviceFatal,
        ),
        (
            "NCCL WARN NET/IB : mlx5_0:1 Got async fatal event: QP fatal error",
            Source::Nccl,
            ErrorClass::Flushed,
        ),
        ("Unable to find the Infiniband/RoCE device", Source::Perftest, ErrorClass::NoDevice),
        (
            "select.c:630  UCX  ERROR no active messages transport to <no debug data>: self/memory - \
             Unsupported operation",
            Source::Ucx,
            ErrorClass::NoDevice,
        ),
        (
            "DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0xffff0000 [fault \
             reason 0x06] PTE Read access is not set",
            Source::Kernel,
            ErrorClass::IommuFault,
        ),
        (
            "mlx5_core 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0027 \
             address=0x1 flags=0x0]",
            Source::Kernel,
            ErrorClass::IommuFault,
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.",
            Source::Kernel,
            ErrorClass::Gpu,
        ),
        (
            "wirelane: register 1 GiB on mlx5_0: out of memory (errno 12) — raise memlock: \
             `ulimit -l unlimited`",
            Source::Wirelane,
            ErrorClass::Registration,
        ),
        (
            "wirelane: lane 3: the peer or the path to it is gone — reconnect",
            Source::Wirelane,
            ErrorClass::RetryExceeded,
        ),
    ];
    for (line, source, class) in cases {
        let error = one(line);
        assert_eq!((error.source, error.class), (source, class), "{line}: {error:?}");
    }
}

#[test]
fn vendor_errors_are_printed_in_both_bases() {
    let decimal = one("NET/IB : Got completion with status=4 vendor err 81");
    let hex = one("Local protection on mlx5_0 (synd 0x4 vend 0x51 hw_synd 0/0)");
    for error in [decimal, hex] {
        assert!(error.title.contains("81 = 0x51"), "{}", error.title);
        assert!(error.meaning.iter().any(|line| line.contains("not 0x81")), "{:?}", error.meaning);
    }
}

#[test]
fn repeated_lines_are_counted() {
    let log = "NET/IB : Got completion with status=5 vendor err 249\n".repeat(500);
    assert_eq!(one(&log).times, 500);
}

#[test]
fn other_lines_are_not_recognized() {
    for line in [
        "",
        "hello world",
        "NCCL INFO Using network IB",
        "exit status 1",
        "systemd[1]: foo.service: Main process exited, code=exited, status=4",
        "HTTP status 12 from the vendor's page",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "kernel: Out of memory: Killed process 1234 (python)",
        "INFO checkpoint flushed to disk",
        "INFO default cache flushed; wifi_driver out of memory",
        "chat completion finished with status 4",
        "batch job completion, exit status 2",
        "symlink downloaded ok",
        "the link down the page is broken",
        "mlx5_core 0000:3b:00.0: link downgraded",
        "nginx: upstream response timeout",
        "remote access VPN is connected",
        "chat completion: bad response from upstream",
        "curl: Couldn't connect to server",
        "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
        "pcieport 0000:00:1c.0: DPC: error containment capabilities: Int Msg #0, RPExt+",
        "DMAR: Using default domain",
        "NCCL INFO Using network IB",
        "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        "NCCL INFO NCCL_IB_DISABLE set by environment to 0.",
        "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.",
        "NCCL INFO Connected all rings",
        "NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 busId 7000 - Init COMPLETE",
        "NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
        "NCCL INFO NVLS multicast support is available on dev 0",
        "NCCL INFO NVLS multicast support is not available on dev 0",
        "NCCL INFO cudaDriverVersion 12020",
        "NCCL INFO Using non-device net plugin version 0",
        "NCCL INFO P2P Chunksize set to 131072",
        "UCX  INFO  ep_cfg[0]: tag(rc_mlx5/mlx5_0:1)",
        "mlx5_core 0000:81:00.0: firmware version: 16.35.2000",
        "mlx5_core 0000:81:00.0: E-Switch: Total vports 10, per vport: max uc(128) max mc(2048)",
        "mlx5_core 0000:81:00.0: MLX5E: StrdRq(1) RqSz(8) StrdSz(2048) RxCqeCmprss(0)",
        "mlx5_core 0000:81:00.0 ens1f0np0: Link up",
        "mlx5_core 0000:81:00.0: 126.016 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x8 link)",
        "mlx5_core 0000:81:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 97656Mbps",
        "mlx5_core 0000:81:00.0: mlx5_pcie_event:302:(pid 1): PCIe slot advertised sufficient power (75W).",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05",
        "DMAR: IOMMU enabled",
        "DMAR: Intel(R) Virtualization Technology for Directed I/O",
        "AMD-Vi: Interrupt remapping enabled",
        "AMD-Vi: AMD IOMMUv2 loaded and initialized",
        "pciehp: Slot #0 AttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug+ Surprise+",
        "EAL: Probe PCI driver: mlx5_pci (15b3:101d) device: 0000:5e:00.0 (socket 0)",
        "error: failed to push some refs to 'github.com'",
        "ERROR: could not open requirements file: [Errno 2] No such file or directory: 'r.txt'",
        "git@github.com: Permission denied (publickey).",
        "curl: (7) Failed to connect to 10.0.0.1 port 80: Connection refused",
        "requests.exceptions.ConnectionError: Failed to establish a new connection: [Errno 111] Connection refused",
        "TimeoutError: timed out",
        "SSL handshake failed",
        "No resources found in default namespace.",
        "max locked memory       (kbytes, -l) unlimited",
        "CPU frequency: 2100 MHz",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
        "Error registering service worker",
        "File transfer failed",
        "psycopg2.OperationalError: could not connect to server: Connection refused 5432:",
        "dns: falling back to TCP",
        "kubelet: failed to create pod sandbox",
        "mkdir: cannot create directory: Permission denied",
        "ModuleNotFoundError: No module named 'mooncake'",
        "Failed to open sqlite database",
        "ib_write_bw: RDMA_Write BW Test",
        " Dual-port       : OFF          Device         : mlx5_0",
        " local address: LID 0000 QPN 0x0108 PSN 0x6fd2d0 RKey 0x1fdeb8 VAddr 0x007f",
        " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01",
        " Number of qps   : 1            Transport type : IB",
        "opaque token not available",
        "iceberg: internal error",
        "rank 0 connected to 10.0.0.2:29500",
        "Using IB device mlx5_0",
        "nvidia-peermem: loaded",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "java.net.SocketTimeoutException: Read timed out",
        "systemd[1]: Started Open-iSCSI.",
        "igb 0000:00:14.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex",
        "INFO 01-15 worker.py:30] rank 3 uses device mlx5_3",
        "Step 100 RDMA throughput 45 GB/s",
        "spdk_app_start: Total cores available: 2",
        "\u{0}\u{1b}[31m",
    ] {
        assert_eq!(parse(line), [], "{line}");
    }
}

#[test]
fn an_error_at_the_end_of_a_long_log_is_found() {
    let mut log = LogParser::default();
    for step in 0..20_000 {
        log.add(&format!("step {step}: loss 0.{step}"));
    }
    log.add("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.");
    assert_eq!(log.into_errors().len(), 1);
    // When the limit of different errors is reached, repeated ones still count.
    let mut log = LogParser::default();
    for number in 0..200 {
        log.add(&format!("NVRM: Xid (PCI:0): {number}, x"));
    }
    log.add("NVRM: Xid (PCI:0): 0, x");
    assert_eq!(log.into_errors()[0].times, 2);
}

#[test]
fn any_text_is_parsed_with_bounded_memory() {
    let long = format!("vendor err {} status={}", "9".repeat(100_000), "8".repeat(100_000));
    assert_eq!(parse(&long), []);
    let many: String =
        (0..5000).map(|number| format!("NVRM: Xid (PCI:0): {number}, x\n")).collect();
    assert_eq!(parse(&many).len(), MAX_ERRORS);
    assert_eq!(parse(&"ü(".repeat(100_000)), []);
}
