// `leat coordinator --standby ADDRESS --directory OWN`: a standby that shares nothing but the network with
// its coordinator. It copies the coordinator's journal and checkpoints into its own directory, and goes on
// with the job once a majority of the members has elected it.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "job/job.h"
#include "run/roles/standby/standby_role.h"

namespace leat::roles {

// As RunStandby; StandbyOptions::directory is its own, and is created if it is missing. kFailedPrecondition
// if it belongs to another job or run.
Status RunNetworkStandby(StandbyOptions options);

}  // namespace leat::roles
