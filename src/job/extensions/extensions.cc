#include "job/extensions/extensions.h"

#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "compute/onnx/network.h"

namespace leat::job {
namespace {

// Names appear in job files, in names of variables and in the version.
constexpr size_t kMaxName = 40;
constexpr size_t kMaxInVersion = 512;  // less than what roles accept of a version

Extensions& Used() {
  static Extensions used;
  return used;
}

[[noreturn]] void RefuseExtension(const std::string& what, std::string_view name, const std::string& why) {
  throw std::invalid_argument(what + " '" + std::string(name) + "' of this program: " + why);
}

void CheckName(const std::string& what, std::string_view name, bool has_function) {
  if (!IsWord(name, kMaxName, "_")) RefuseExtension(what, name, "a name has 1 to 40 letters, digits or '_'");
  if (!has_function) RefuseExtension(what, name, "its function is missing");
}

}  // namespace

std::string Extensions::InVersion() const {
  std::string text;
  for (const auto& layer : layers) text += "+layer." + std::string(layer.kind);
  for (const auto& [name, open] : sources) text += "+source." + name;
  for (const auto& [name, place] : placements) text += "+placement." + name;
  return version.empty() ? text : text + "+" + version;
}

void UseExtensions(Extensions extensions) {
  std::set<std::string_view> taken;
  for (const auto& kind : nn::LayerKinds()) taken.insert(kind.kind);
  for (const auto& kind : onnx::LayerKinds()) taken.insert(kind.kind);
  for (const auto& layer : extensions.layers) {
    CheckName("layer", layer.kind, layer.make != nullptr);
    if (!taken.insert(layer.kind).second)
      RefuseExtension("layer", layer.kind, "there is a layer of this name");
  }
  for (const auto& [name, open] : extensions.sources) CheckName("source", name, open != nullptr);
  for (const auto& [name, place] : extensions.placements) {
    CheckName("placement", name, place != nullptr);
    if (protocol::IsPlacement(name)) RefuseExtension("placement", name, "there is a placement of this name");
  }
  if (!extensions.version.empty() && !IsWord(extensions.version, kMaxName, "_-."))
    RefuseExtension("version", extensions.version, "it has at most 40 letters, digits, '_', '-' or '.'");
  if (extensions.InVersion().size() > kMaxInVersion)
    throw std::invalid_argument("the names of this program's extensions have more than 512 letters");
  Used() = std::move(extensions);
}

const Extensions& OwnExtensions() {
  return Used();
}

}  // namespace leat::job
