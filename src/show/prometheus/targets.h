// The listeners of a job's members, in the format of Prometheus' HTTP discovery.
#pragma once

#include <string>

#include "show/report/job_status.h"

namespace leat::observe {

// `status`: of the job. `own`: the coordinator's own listener, which is listed, too. `host`: the name of this
// host; listeners on the loopback of other hosts are left out. Pure.
std::string TargetsJson(const report::JobStatus& status, const std::string& own, const std::string& host,
                        bool tls);

}  // namespace leat::observe
