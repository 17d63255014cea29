// Changed copies of a tree, and a tree as YAML.
#include <cmath>
#include <utility>

#include "base/config/config_node.h"
#include "base/config/config_text.h"

namespace leat {
namespace {

constexpr double kWholeNumbers = 1e15;  // below it doubles hold each whole number

}  // namespace

Config Config::EmptyMap(std::string_view origin) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kMap;
  node->file = std::make_shared<const std::string>(origin);
  node->line = 0;
  return Config(std::move(node));
}

Config Config::WithoutSettings() const {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kMap;
  node->file = node_->file;
  node->line = node_->line;
  node->name = node_->scalar;
  return Config(std::move(node));
}

// Items of a list are called by its name.
std::shared_ptr<const Config::Node> Config::Renamed(const Node& node, std::string name) {
  auto renamed = std::make_shared<Node>(node);
  renamed->name = std::move(name);
  if (node.kind != Node::Kind::kList) return renamed;
  for (size_t i = 0; i < node.children.size(); ++i)
    renamed->children[i] = Renamed(*node.children[i], renamed->name + "[" + std::to_string(i) + "]");
  return renamed;
}

Config Config::With(std::string_view key, const Config& value) const {
  node_->Find(key);  // fails if this is not a map
  auto map = std::make_shared<Node>(*node_);
  map->kind = Node::Kind::kMap;
  auto child = Renamed(*value.node_, std::string(key));
  const auto [at, added] = map->index.emplace(key, map->keys.size());
  if (added) {
    map->keys.emplace_back(key);
    map->children.push_back(std::move(child));
  } else {
    map->children[at->second] = std::move(child);
  }
  return Config(std::move(map));
}

Config Config::WithScalar(std::string_view key, std::string text, bool quoted) const {
  return With(key, Config(MakeScalar(*node_, std::move(text), quoted)));
}

std::shared_ptr<Config::Node> Config::MakeScalar(const Node& place, std::string text, bool quoted) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kScalar;
  node->file = place.file;
  node->line = place.line;
  node->scalar = std::move(text);
  node->quoted = quoted;
  return node;
}

Config Config::With(std::string_view key, std::string_view text) const {
  return WithScalar(key, std::string(text), true);
}
Config Config::With(std::string_view key, int64_t value) const {
  return WithScalar(key, config_text::Printed(value), false);
}
Config Config::With(std::string_view key, double value) const {
  const bool whole = value == std::floor(value) && std::abs(value) < kWholeNumbers;
  return WithScalar(
      key, whole ? config_text::Printed(static_cast<int64_t>(value)) : config_text::Printed(value), false);
}
Config Config::With(std::string_view key, const std::vector<std::string>& texts) const {
  auto list = std::make_shared<Node>();
  list->kind = Node::Kind::kList;
  list->file = node_->file;
  list->line = node_->line;
  for (const auto& text : texts) list->children.push_back(MakeScalar(*node_, text, true));
  return With(key, Config(std::move(list)));
}

Config Config::Without(std::string_view key) const {
  if (node_->Find(key) == nullptr) return *this;
  auto map = std::make_shared<Node>(*node_);
  const auto at = map->index.find(key)->second;
  map->keys.erase(map->keys.begin() + static_cast<std::ptrdiff_t>(at));
  map->children.erase(map->children.begin() + static_cast<std::ptrdiff_t>(at));
  map->index.clear();
  for (size_t i = 0; i < map->keys.size(); ++i) map->index.emplace(map->keys[i], i);
  return Config(std::move(map));
}

void Config::Node::Write(std::string* out, size_t indent) const {
  if (kind == Kind::kNull) *out += "null\n";
  if (kind == Kind::kScalar) *out += config_text::Scalar(scalar, !quoted) + "\n";
  if ((kind == Kind::kList || kind == Kind::kMap) && children.empty())
    *out += kind == Kind::kList ? "[]\n" : "{}\n";
  if ((kind == Kind::kList || kind == Kind::kMap) && !children.empty() && indent > 0) *out += "\n";
  for (size_t i = 0; i < children.size(); ++i) {
    out->append(2 * indent, ' ');
    *out += kind == Kind::kList ? "- " : config_text::Scalar(keys[i], false) + ": ";
    children[i]->Write(out, indent + 1);
  }
}

std::string Config::ToYaml() const {
  std::string out;
  node_->Write(&out, 0);
  return out;
}

}  // namespace leat
