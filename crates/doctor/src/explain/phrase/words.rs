//! Words that rows of several tables share.

/// Words of lines about RDMA, and of programs that use it.
pub(super) const RDMA: &str = "rdma|roce|ibv_|ib_|ibverbs|libibverbs|infiniband|mlx4|mlx5|verbs|hca|rnic|ucx|\
             ucs_|ucp|uct|ucc_|nccl|rccl|net/ib|net/ofi|libfabric|ofi |ofi_|ofi:|ofi/|efa |efa_|efa:|efa-|\
             efa;|efa/|efa'|efa,|efa)|efa\"|openib|\
             nvshmem|ibgda|ibrc|mooncake|transfer_engine|transfer_metadata|transferengine|\
             transfer engine|nixl|deepep|deep_ep|uccl|psm2|psm3|psm |hfi1|hfi |gpi2|qp|qpair|rqpair|\
             cq |cqe|srq|ib device|ib devices|ib port|o2ib|gpudirect|spdk|nvmf|perftest|bnxt_re|\
             irdma|erdma|hns_roce|qedr|siw|rxe|iwarp|iw_cm|ipoib|ib0|ib1|uverbs|umad|librdmacm|\
             ibwarn|iberror|ibpanic|ibnetdisc|opensm|openfabrics|mad_rpc|madrpc|srp|iser|isert|\
             rpcrdma|xprtrdma|svcrdma|smbdirect|smb_direct|lnet|lneterror|lustreerror|ko2iblnd|\
             kiblnd|na_ofi|na_ucx|fi_|cxi|opx|hcoll|pml_|mtl_|btl_|mpidi_|mca_|gdrcopy|gdrdrv|gdr_|\
             gdaki|peermem|dmabuf|dma-buf|doca|brpc|gloo|c10d|tcpstore|processgroup|distbackend|\
             diststore|distnetwork|torch.distributed|kvtransfer|aws-ofi|wc_|nvme_rdma|nvme_ctrlr|nvme_qpair|\
             nvme-fabrics|ib |ib:|lustre:|libcfs|ptlrpc|psm_|psm2_|psm3_|ccl_error|ccl_warn|oneccl|\
             atl_ofi|acm_|ibacm|hg_core|hg_init|na_init|ucxx|n4ucxx|remote nic|local_nic|peer_nic|\
             master_client|coro_rpc|transfer_task|ofed|openibd|hv_network_direct|mvapich|cma_ep|\
             cmiabort|charmrun|krdma|gpu direct|socketprogress|socketpoll|ncclsocket|ibsim|openmpi|open mpi|\
             pd |ah |mr |mr:|mrs|mkey|xrc|odp|sgid|dgid|gid index|gid type|gid table|rkey|lkey|wr_id|cq_event|\
             async_event|wc error|wc status|srd |beegfs|ibvsocket|gpfs|mmfs|daos|margo|hccl|hcomm|\
             rocshmem|mori_|mori:|msccl|byteps|rdma_van|horovod|gasnet|openshmem|oshmem|cufio|cufile|nvidia-fs|\
             nvidia_fs|bdev_nvme|nvmf_|nvme_fabric|c10::|sockethandshake|wirelane|ibping|smpquery|\
             infinipath|qib|usnic|mthca|mofed|network-operator|dcgm|ud_ep|ud_iface|rc_verbs|rc_mlx5|rc_ep|\
             dc_mlx5|dc_verbs|rcache|mm_ep|mm_posix|mm_sysv|tcp_ep|wireup|gdr_copy|cuda_ipc|cuda_copy|\
             net_ib|ibvwrap|proxy.cc|bootstrap.cc|common_ucx|osc_ucx|osc_rdma|coll_ucc|ompi|opal|pmix|orte|\
             prte|oob_tcp|mlnx|connectx|mellanox|gennotif|mpi |mpi_|pmpi_|mpir_|mpid_|mpich|i_mpi|mpi:|\
             sharp_|sharp:|sharp coll|sharp group|ibstat|ibdev2netdev|ibnetdiscover|iblinkinfo|ibdiagnet|\
             ibqueryerrors|mlxlink|mlxconfig|mlxfwmanager|subnet manager|sm_lid|pkey_index|pkey index|\
             pkey table|ib_pkey|p_key|wqe|umr|mcast|qpn|\
             nvmet|nvme-of|dapl|libdat|rcvhdrq|knem|smr_|cxil|gdrdma|peer memory|peer_mem|ibext|tl_ucp|\
             prov_errno|prov/|kv_transfer|kv transfer|lmcache|mnnvl|imex|all_reduce_perf|nccl-test|gds_|\
             gds:|ms_async|sockcm|sockaddr|destination is unreachable|iscsi|iscsid|iscsiadm|vma |vma:|xlio|\
             hfi unit|nic unit|worker_pool.|multi_transport|store_py|pybind_client|client_service.cpp|\
             master_service.cpp|sharp_am|sat tree|non-zero status|sm lid|mad |mads|umads|rdmacm|\
             netlink_rdma|gpudirect-tcpx|fastrak|libnccl|librccl|hfi_|hfp_|ndev|nic_|nic-|ucc  |cl_basic|\
             cl_hier|tl_cuda|tl_mlx5|tl_nccl|tl_rccl|tl_self|tl_sharp|tl_shm|cma support|\
             remote process' memory|glusterd|rpc-transport|osm_|0x01 ->|perfmgr|ksmbd|smbd_|rtrs|\
             rnbd|rds:|rds_|smc_|smc-r|i40iw|iw_cxgb4|ocrdma|pvrdma|mana_ib|ionic_rdma|rdmavt|sriov|sr-iov|\
             disni|rdmachannel|gpunetio|allocate endpoint|initializing endpoint|component ofi|vf |\
             vf:|pf |vdpa|netdevice|common_ofi|portals4|btl |efa.|rndv|ei00|log_cat_|xio_|scalable endpoint|\
             tensorpipe|direct_transport|fabtests|eq_readerr|cq_readerr|memheap|gds err|pynccl|custom_all_reduce|\
             custom allreduce|torch/csrc/distributed|hccl|rpc agent|nvmerdma|rdmashuffle|ps-lite|local_gid|\
             remote_gid";
/// Words of lines about jobs on several hosts or GPUs that name no RDMA: ranks, and what starts and serves them.
pub(super) const JOB: &str = "rank |rank:|rank=|rank[|[rank|ranks|torchrun|torchelastic|torch.distributed|elastic_launch|\
             deepspeed|megatron|raylet|ray.|ray::|gcs|vllm|sglang|lmdeploy|tensorrt_llm|tensorrt-llm|xla|jax|pjrt|lightgbm|\
             xgboost|rabit|dask|distributed.comm|distributed.worker|tornado.|spark|blockmanager|shuffle|slurm|slurmstepd|\
             srun|mpirun|mpiexec|hydra|workerdict|master_addr|master addr|rendezvous";
/// Words of failures.
pub(super) const FAILED: &str =
    "fail|unable|could not|couldn't|cannot|can't|can not|error|err|not ";
/// Words of failures next to the name of a call: also the texts of error numbers.
pub(super) const FAILED_CALL: &str = "fail|connection closed|unable|could not|couldn't|cannot|can't|can not|\
             error|err|not |\
             returned -|return -|ret -|ret=-|ret = -|rc=-|rc = -|rc: -|null|no such|invalid|denied|\
             bad address|timed out|timeout|refused|reset|broken pipe|busy|unreachable|no route|\
             out of memory|input/output|i/o error|inappropriate|no space|temporarily unavailable|\
             no data|protocol error|protocol not|too many|unsupported|reject|abort|exceed|assertion|\
             non-zero|unexpected|timed-out|*error*";
macro_rules! failures {
    () => {
        "fail|unable|could not|couldn't|cannot|can't|can not|error|err|fatal|abort|assert|exception|\
             invalid|illegal|corrupt|mismatch|unexpected|timed out|timeout|denied|refused|reject|unreachable|\
             no such|lost|broken|disconnect|exceed|overflow|overrun|not enough|insufficient|too small|\
             too large|too many|too few|unsupported|not supported|not available|unavailable|not found|\
             missing|wrong|unhandled|non-zero|violation|closed|no backend|no common|no potential|\
             no specified|no suitable|no valid|no active|not complete|not detected|not active|inactive|\
             out of range|out of rx|out of tx|out of buffers|out of memory|out of resources|ran out|\
             running out|exhausted|does not|doesn't|not loaded|not registered|without nvfs|no preset|\
             no matching|nothing to|degradation|null|terminate called|taking the entire|called before|\
             incomplete|unknown migration|eof|truncated|not ready|not initialized|not connected|bad |stuck|\
             hang|killed|crash|panic|terminated|dropped|dropping|unknown|never|unresolved|refuse|unstable|\
             no free|no space|no memory|limit reached|out of bound|already in use|not enabled|not allowed|\
             not valid|not permitted|not complet|disable device|bigger than|malfunction|times out|more than available"
    };
}
/// Any word of a failure.
pub(super) const ANY_FAILED: &str = failures!();
/// Any word of a failure, or the severity of a line: that alone does not tell what failed.
pub(super) const ANY_FAILED_OR_WARNING: &str = concat!(
    failures!(),
    "|nccl warn|ucx  warn|ucx  error|ucx  diag|<warn>|*error*|lneterror|lustreerror|iberror|ibpanic"
);
/// Lines with one of these words mostly report no error: they inform, or they are of builds, packages and scripts. Rows with
/// [`RDMA`] do not apply to them.
pub(super) const INFORMS: &str = "nccl info|ucx  info|ucx  debug|ucx  trace|ucx  req|<info>|<debug>|<trace>|\
             *debug*|*notice*|*info*|[info]|[debug]|pip |pip3|wheel|cmake|requirement already|\
             satisfies the requirement|\
             requirements file|ninja:|make:|make[|gcc:|gcc'|g++|nvcc |undefined reference|set by environment|\
             , 0 error|: 0 error|(0 error|no errors|: no error|, no error|without error|errors: 0 |errors = 0 |\
             error: 0 |err: 0 |failed: 0 |failures: 0 |, 0 fail|: 0 fail|(0 fail|status=0 |status=0,|\
             tests passed|test passed|inline size set|docker pull|git clone|apt-get|\
             warnings.warn|deprecat|futurewarning|userwarning|no module named|unable to access '|\
             importerror|unused env variable|configure: warning|checking for|[-w|loading module|<not set>|attributeerror|typeerror|syntaxerror|traceback|file \"";
