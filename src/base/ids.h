// Strong id types: passing a NodeId where a SliceId is expected does not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace leat {

template <class Tag, class Rep>
struct Id {
  using rep = Rep;
  Rep value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

template <class Tag, class Rep>
std::string ToString(Id<Tag, Rep> id) {
  return std::to_string(id.value);
}

// A process that joined the job. Never reused: a restarted process gets a new id. 0 = none.
using NodeId = Id<struct NodeIdTag, uint64_t>;
// Number of a membership view. Increases with every change of members or slice placement. 0 = no view yet.
using Generation = Id<struct GenerationTag, uint64_t>;
// Index of a slice in the job's table of slices, which is fixed when the job is created.
using SliceId = Id<struct SliceIdTag, uint32_t>;
// Increases whenever a slice is created or restored. A slice that moves keeps it. 0 = never placed.
using Incarnation = Id<struct IncarnationTag, uint64_t>;

}  // namespace leat

template <class Tag, class Rep>
struct std::hash<leat::Id<Tag, Rep>> {
  size_t operator()(leat::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>()(id.value); }
};
