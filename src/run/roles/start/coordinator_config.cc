#include "run/roles/start/coordinator_config.h"

#include "job/resume.h"
#include "net/address.h"
#include "run/roles/role.h"

namespace leat::roles {

protocol::CoordinatorConfig MakeCoordinatorConfig(const job::Job& job, const CoordinatorOptions& options,
                                                  uint64_t term) {
  protocol::CoordinatorConfig config;
  config.table = job.Slices();
  config.placement = job.placement;
  config.servers = job.servers;
  config.max_servers = job.max_servers;
  config.replicas = job.replicas;
  config.workers = job.workers;
  config.wanted_workers = {job.workers, job.max_workers};
  config.strategy = job.strategy;
  config.cuts = job.Cuts();
  config.late_labels = job.schema.has_late_labels();
  config.heartbeat_interval = job.heartbeat_interval;
  config.heartbeat_timeout = job.heartbeat_timeout;
  config.leases.first = job.lease_timeout;
  config.stuck_timeout = job.stuck_timeout;
  config.checkpoint_interval = FromSeconds(job.checkpoint_interval_s);
  config.keep_checkpoints = job.keep_checkpoints;
  config.pause_at = options.pause_at;
  config.pool = options.pool;
  if (job.predictions.enabled()) config.max_unpublished = job.predictions.max_unpublished;
  if (job.drift && job.drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate)
    config.raise = protocol::RateRaise{.factor = job.drift->factor, .events = job.drift->events};
  config.job = job.config.ToYaml();
  config.term = term;
  config.take_over = options.resume && !options.new_members && job::SameAsStored(job);
  config.keep_scale = options.keep_scale || config.take_over;
  config.version = ProgramVersion();
  config.network = net::NetworkId();
  config.topology = job.topology;
  config.job_hash = job.Hash();
  return config;
}

}  // namespace leat::roles
