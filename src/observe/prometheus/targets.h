// The listeners of a job's members, in the format of Prometheus' HTTP discovery.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace leat::observe {

// `status`: of the job. `own`: the coordinator's own listener, which is listed, too. `host`: the name of this
// host; listeners on the loopback of other hosts are left out. Pure.
std::string TargetsJson(const nlohmann::ordered_json& status, const std::string& own, const std::string& host,
                        bool tls);

}  // namespace leat::observe
