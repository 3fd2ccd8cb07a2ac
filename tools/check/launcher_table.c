/* What is known of launchers (launcher_table.h).
 *
 * From the manual pages of coreutils 9.1, util-linux 2.38, Slurm 22.05 (srun) and Open MPI 4.1,
 * from what torch.distributed.run of PyTorch 2.15 prints of itself, and from the sources that read
 * the options: Accelerate 1.15 (commands/launch.py), DeepSpeed 0.19.8 (launcher/runner.py), numactl
 * of June 2026 (numactl.c), Slurm 26.11.0-0rc1 (src/common/slurm_opt.c), Open MPI 5's launcher
 * PRRTE of August 2026 (schizo_ompi.c) and MPICH of August 2026 (hydra/mpiexec/options.c). Of the
 * names mpirun and mpiexec an option is here only if all of these that have it take as many values.
 * An option that is missing here is no answer; one that takes a value and is listed without would
 * be a wrong one.
 */
#include "tools/check/launcher_table.h"

#include <stddef.h>

const struct launcher launcher_table[] = {
    {" env ", "", VARIABLES, 0, false,
     "i!e ignore-environment!e u=!s unset=!s C=!f chdir=!f S=!u split-string=!u v debug"},
    {" nice ", "", BEHIND, 0, false, "n= adjustment= 0 1 2 3 4 5 6 7 8 9"},
    {" nohup setsid ", "", BEHIND, 0, false, "c ctty f fork w wait"},
    {" stdbuf ", "", BEHIND, 0, false, "i= input= o= output= e= error="},
    {" time ", "", BEHIND, 0, false,
     "a append f= format= o= output= p portability v verbose q quiet"},
    {" ionice ", "", BEHIND, 0, false, "c= class= n= classdata= t ignore p=!u pid=!u P=!u u=!u"},
    {" chrt ", "", BEHIND, 1, false, "b f i o r d R a v p!u T= P= D="},
    {" taskset ", "", BEHIND, 1, false, "a all-tasks c cpu-list p!u pid!u"},
    {" timeout ", "", BEHIND, 1, false,
     "k= kill-after= s= signal= foreground preserve-status v verbose"},
    {" numactl ", "", BEHIND, 0, false,
     "a all b balancing i= interleave= w= weighted-interleave= p= preferred= P= preferred-many= m= "
     "membind= N= cpunodebind= C= physcpubind= c= cpubind= cpu-compress t strict l localalloc s!u "
     "show!u H!u hardware!u"},
    {" mpirun mpiexec orterun prterun mpiexec.hydra mpirun.openmpi mpiexec.openmpi mpirun.mpich "
     "mpiexec.mpich ",
     "", MPI, 0, true,
     "n= np= c= N= npernode= npersocket= host= H= hosts= hostfile= machinefile= f= ppn= perhost= "
     "x=!a "
     "map-by= bind-to= rank-by= wd=!f wdir=!f path= prefix= output-filename= report-uri= stdin= "
     "timeout= rf= rankfile= tune=!u cpu-set= cpu-list= slot-list= xterm= personality= output= "
     "display= "
     "runtime-options= mca== gmca== pmixmca== prtemca== genv==!a env==!a genvlist= envlist= "
     "genvall "
     "genvnone!e envall envnone!e launcher= bootstrap= rmk= iface= outfile-pattern= "
     "errfile-pattern= l "
     "prepend-rank print-all-exitcodes allow-run-as-root oversubscribe nooversubscribe "
     "use-hwthread-cpus tag-output timestamp-output report-bindings display-map display-allocation "
     "bycore bynode byslot quiet q verbose v d debug-daemons enable-recovery get-stack-traces "
     "merge-stderr-to-stdout nolocal novm continuous xml app=!u configfile=!u am= amca= "
     "bind-to-core "
     "bind-to-socket binding= bootstrap-exec= launcher-exec= cpus-per-proc= cpus-per-rank= "
     "default-hostfile= demux= disable-auto-cleanup enable-auto-cleanup disable-recovery disable-x "
     "enable-x display-devel-map display-devel-allocation do-not-launch!u errfile= outfile= g= "
     "gpus-per-proc= gpu-subdevs-per-proc= hostlist= machine= machines= machinelist= "
     "leave-session-attached localhost= max-restarts= max-vm-size= membind= memory-alloc-kinds= "
     "nameserver= noprefix order-nodes= output-from= pernode ppr= preload-binary preload-files= "
     "prepend-pattern= rankmap= report-pid= show-progress skip-launch-node= topolib= usize= "
     "xml-file= set-cwd-to-session-dir!u index-argv-by-rank omca== gomca== debug-daemons-file "
     "output-directory= with-ft= gpu-support= spawn-timeout="},
    {" srun ", "", MPI, 0, false,
     "A= a= B= b= C= c= D=!f d= E e= F= G= H I? i= J= K? k? L= l M= m= N= n= O o= P= p= Q q= r= S= "
     "s T= t= u "
     "v W= "
     "w= X x= Z account= acctg-freq= bb= bbf= bcast? begin= chdir=!f clusters= comment= "
     "constraint= "
     "container=!u core-spec= cores-per-socket= cpu-bind= cpu-freq= cpus-per-gpu= cpus-per-task= "
     "deadline= delay-boot= dependency= disable-status distribution= epilog= error= exact exclude= "
     "exclusive? export=!x export-file=!u extra= extra-node-info= gid= gpu-bind= gpu-freq= gpus= "
     "gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= hint= hold immediate? "
     "input= "
     "job-name= jobid= kill-on-bad-exit? label licenses= mail-type= mail-user= mem= mem-bind= "
     "mem-per-cpu= mem-per-gpu= mincpus= mpi= multi-prog!u network= nice? no-allocate no-kill? "
     "nodefile= nodelist= nodes= ntasks= ntasks-per-core= ntasks-per-gpu= ntasks-per-node= "
     "ntasks-per-socket= open-mode= output= overcommit overlap? oversubscribe partition= power= "
     "prefer= preserve-env priority= profile= prolog= propagate? pty? qos= quiet quit-on-interrupt "
     "reboot relative= reservation= resv-ports? send-libs? signal= slurmd-debug= sockets-per-node= "
     "spread-job switches= task-epilog= task-prolog= test-only thread-spec= threads= "
     "threads-per-core= time= time-min= tmp= tres-per-task= uid= accel-bind= bcast-exclude= "
     "cluster-constraint= compress? contiguous het-group= mcs-label= msg-timeout= unbuffered "
     "use-min-nodes verbose "
     "wait= wckey= whole async cluster= consolidate-segments container-id=!u context= "
     "external-launcher? interactive mem-update= ntasks-per-tres= oom-kill-step? pack-group= "
     "parsable resources= runtime= segment= spread-segments stepmgr tasks-per-node= treewidth= "
     "tres-bind= wait-for-children x11?"},
    {" torchrun ", " torch.distributed.run torch.distributed.launch ", PYTHON, 0, false,
     "nnodes= nproc-per-node= rdzv-backend= rdzv-endpoint= rdzv-id= rdzv-conf= standalone "
     "max-restarts= monitor-interval= start-method= role= m!m module!m no-python!p run-path "
     "log-dir= "
     "r= redirects= t= tee= local-ranks-filter= node-rank= master-addr= master-port= local-addr= "
     "logs-specs= use-env numa-binding= signals-to-handle= virtual-local-rank event-log-handler= "
     "duplicate-stdout-filters= duplicate-stderr-filters= log-line-prefix-template= "
     "shutdown-timeout="},
    {" accelerate accelerate-launch ", " accelerate.commands.launch ", PYTHON, 0, false,
     "config-file= q quiet cpu multi-gpu tpu tpu-use-cluster use-deepspeed use-fsdp "
     "use-parallelism-config use-megatron-lm mixed-precision= dynamo-backend= dynamo-mode= "
     "dynamo-use-fullgraph dynamo-use-dynamic num-processes= num-machines= "
     "num-cpu-threads-per-process= "
     "enable-cpu-affinity machine-rank= main-process-ip= main-process-port= rdzv-backend= "
     "rdzv-conf= "
     "same-network max-restarts= monitor-interval= gpu-ids= t= tee= role= log-dir= m!m module!m "
     "no-python!p debug main-training-function= downcast-bf16 zero-stage= deepspeed-config-file= "
     "deepspeed-hostfile= deepspeed-multinode-launcher= gradient-accumulation-steps= "
     "gradient-clipping= offload-optimizer-device= offload-param-device= zero3-init-flag= "
     "zero3-save-16bit-model= fsdp-version= fsdp-sharding-strategy= fsdp-auto-wrap-policy= "
     "fsdp-offload-params= fsdp-state-dict-type= fsdp-min-num-params= "
     "fsdp-transformer-layer-cls-to-wrap= fsdp-backward-prefetch= fsdp-use-orig-params= "
     "fsdp-cpu-ram-efficient-loading= fsdp-sync-module-states= fsdp-activation-checkpointing= "
     "deepspeed-exclusion-filter= deepspeed-inclusion-filter= deepspeed-moe-layer-cls-names= "
     "dynamo-use-regional-compilation fp8-amax-compute-algo= fp8-amax-history-len= fp8-backend= "
     "fp8-format= fp8-interval= fp8-margin= fp8-opt-level= fp8-override-linear-precision= "
     "fp8-use-autocast-during-eval fsdp-forward-prefetch= fsdp-reshard-after-forward= "
     "megatron-lm-gradient-clipping= megatron-lm-num-micro-batches= megatron-lm-pp-degree= "
     "megatron-lm-recompute-activations= megatron-lm-sequence-parallelism= megatron-lm-tp-degree= "
     "megatron-lm-use-distributed-optimizer= mpirun-ccl= mpirun-hostfile= "
     "offload-optimizer-nvme-path= offload-param-nvme-path= parallelism-config-cp-backend= "
     "parallelism-config-cp-comm-strategy= parallelism-config-cp-size= "
     "parallelism-config-dp-replicate-size= parallelism-config-dp-shard-size= "
     "parallelism-config-sp-attn-implementation= parallelism-config-sp-backend= "
     "parallelism-config-sp-seq-length= parallelism-config-sp-seq-length-is-variable= "
     "parallelism-config-sp-size= parallelism-config-tp-size= use-xpu aws-access-key-id= "
     "aws-secret-access-key= env= vm= tpu-cluster no-tpu-cluster tpu-use-sudo "
     "fp8-enable-fsdp-float8-all-gather= fp8-pad-inner-dim= fsdp-activation-checkpointing-offload= "
     "megatron-lm-attention-backend= megatron-lm-attention-dropout= "
     "megatron-lm-attention-softmax-in-fp32= megatron-lm-calculate-per-token-loss= "
     "megatron-lm-context-parallel-size= megatron-lm-decoder-last-pipeline-num-layers= "
     "megatron-lm-eod-mask-loss= megatron-lm-expert-model-parallel-size= "
     "megatron-lm-expert-tensor-parallel-size= megatron-lm-hidden-dropout= "
     "megatron-lm-no-load-optim= megatron-lm-no-save-optim= megatron-lm-optimizer-cpu-offload= "
     "megatron-lm-overlap-cpu-optimizer-d2h-h2d= megatron-lm-recompute-granularity= "
     "megatron-lm-recompute-method= megatron-lm-recompute-num-layers= "
     "megatron-lm-use-custom-fsdp= megatron-lm-use-precision-aware-optimizer= "
     "megatron-lm-use-rotary-position-embeddings="},
    {" deepspeed ds ", " deepspeed.launcher.runner ", PYTHON, 0, false,
     "H= hostfile= i= include= e= exclude= num-nodes= min-elastic-nodes= max-elastic-nodes= "
     "num-gpus= "
     "master-port= master-addr= node-rank= launcher= launcher-args= module!m no-python!p "
     "no-local-rank "
     "no-ssh no-ssh-check force-multi save-pid enable-each-rank-log= autotuning=!u "
     "elastic-training "
     "bind-cores-to-rank bind-core-list= ssh-port= venv-script= log-level= num-accelerators= q "
     "quiet"},
    {" nccl-join ", "", IN_FRONT, 0, false, "n= loopback no-join!n no-prefix"},
    {" sh bash dash zsh ksh ", "", SHELL, 0, false, ""},
    {.names = NULL},
};
