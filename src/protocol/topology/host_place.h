// Where a host is, and what it is good for. Pure values.
//
// Sites are joined by narrow links. A zone is a failure domain within a site. A class says what a host has
// much of, such as bandwidth or cores; the job names the classes of its roles.
#pragma once

#include <string>
#include <string_view>

#include "base/fields/fields.h"
#include "base/status.h"

namespace leat::topology {

struct HostPlace {
  static constexpr size_t kMaxBytes = 63;  // limit of a name, as of a label in Kubernetes

  std::string site;        // empty: the one site of hosts that name none
  std::string zone;        // empty: not known. Zones of the same name in two sites are different zones.
  std::string host_class;  // empty: none
};
LEAT_FIELDS(HostPlace, (site, AtMost(HostPlace::kMaxBytes)), (zone, AtMost(HostPlace::kMaxBytes)),
            (host_class, AtMost(HostPlace::kMaxBytes)));

// kInvalidArgument with the value, and with `what` ("--site", "LEAT_ZONE"), unless it is empty or a name:
// letters, digits, '-', '_' and '.', which begins and ends with a letter or digit. The values of a peer are
// checked with it, too.
Status CheckPlaceName(std::string_view what, std::string_view value);
Status Check(const HostPlace& place);

// A role's place: a value of the command line, where there is one, or else the environment's.
// kInvalidArgument with the name of the option or variable.
struct PlaceSettings {
  std::string site, zone, host_class;  // LEAT_SITE, LEAT_ZONE, LEAT_CLASS, or --site, --zone, --class
};
Result<HostPlace> MakeHostPlace(const PlaceSettings& options, const PlaceSettings& environment);

inline bool SameSite(const HostPlace& a, const HostPlace& b) {
  return a.site == b.site;
}
// Both zones are known, and are the same zone of the same site.
inline bool SameZone(const HostPlace& a, const HostPlace& b) {
  return SameSite(a, b) && !a.zone.empty() && a.zone == b.zone;
}
// Both zones are known, and are two zones of the same site: one failure does not reach both.
inline bool OtherZoneOfSite(const HostPlace& a, const HostPlace& b) {
  return SameSite(a, b) && !a.zone.empty() && !b.zone.empty() && a.zone != b.zone;
}

// "madrid/a (bandwidth)", for messages. "a host without a site" if nothing is known.
std::string PlaceText(const HostPlace& place);

}  // namespace leat::topology
