#include "protocol/topology/host_place.h"

#include <array>

#include "base/text.h"

namespace leat::topology {

Status CheckPlaceName(std::string_view what, std::string_view value) {
  if (value.empty()) return {};
  if (IsWord(value, HostPlace::kMaxBytes, "-_.") && IsLetterOrDigit(value.front()) &&
      IsLetterOrDigit(value.back()))
    return {};
  std::string shown(value.substr(0, HostPlace::kMaxBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return {Code::kInvalidArgument,
          std::string(what) + " '" + shown + "' is no name: at most " + std::to_string(HostPlace::kMaxBytes) +
              " letters, digits, '-', '_' and '.', with a letter or digit at both ends"};
}

Status Check(const HostPlace& place) {
  LEAT_RETURN_IF_ERROR(CheckPlaceName("site", place.site));
  LEAT_RETURN_IF_ERROR(CheckPlaceName("zone", place.zone));
  return CheckPlaceName("class", place.host_class);
}

Result<HostPlace> MakeHostPlace(const PlaceSettings& options, const PlaceSettings& environment) {
  HostPlace place;
  struct Part {
    const char *option, *variable;
    std::string PlaceSettings::*setting;
    std::string HostPlace::*value;
  };
  for (const Part& part :
       std::array<Part, 3>{{{"--site", "LEAT_SITE", &PlaceSettings::site, &HostPlace::site},
                            {"--zone", "LEAT_ZONE", &PlaceSettings::zone, &HostPlace::zone},
                            {"--class", "LEAT_CLASS", &PlaceSettings::host_class, &HostPlace::host_class}}}) {
    const bool given = !(options.*part.setting).empty();
    place.*part.value = given ? options.*part.setting : environment.*part.setting;
    LEAT_RETURN_IF_ERROR(CheckPlaceName(given ? part.option : part.variable, place.*part.value));
  }
  return place;
}

bool SameSite(const HostPlace& a, const HostPlace& b) {
  return a.site == b.site;
}

bool SameZone(const HostPlace& a, const HostPlace& b) {
  return SameSite(a, b) && !a.zone.empty() && a.zone == b.zone;
}

bool OtherZoneOfSite(const HostPlace& a, const HostPlace& b) {
  return SameSite(a, b) && !a.zone.empty() && !b.zone.empty() && a.zone != b.zone;
}

std::string PlaceText(const HostPlace& place) {
  if (place == HostPlace()) return "a host without a site";
  std::string text = place.site.empty() ? "(no site)" : place.site;
  if (!place.zone.empty()) text += "/" + place.zone;
  if (!place.host_class.empty()) text += " (" + place.host_class + ")";
  return text;
}

}  // namespace leat::topology
