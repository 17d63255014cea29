// Parsing: the handler of yaml-cpp's events.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/config/config_node.h"
#include "base/config/config_text.h"
#include "base/exit_status.h"
#include "base/read_file.h"

namespace leat {
namespace {

constexpr size_t kMaxDepth = 64;
// yaml-cpp accepts keys of up to 1024 characters, and ToYaml may write up to four for each byte.
constexpr size_t kMaxKeyBytes = 128;

}  // namespace

// Builds the tree from the parser's events. Checks every limit before it allocates.
class Config::Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)) {}

  std::shared_ptr<const Node> Take() {
    if (!root_) root_ = Make(Node::Kind::kNull, 0);
    return root_;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_)
      config_text::FailAt(*file_, Line(mark), "a second document begins here; the file must contain one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { OnScalar(mark, "?", anchor, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    config_text::FailAt(*file_, Line(mark), "aliases (*name) are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Check(mark, tag, anchor);
    const bool quoted = tag == "!";
    if (AtKey()) return SetKey(mark, value);
    auto node =
        Make(!quoted && config_text::IsNullWord(value) ? Node::Kind::kNull : Node::Kind::kScalar, Line(mark));
    node->scalar = value;
    node->quoted = quoted;
    Place(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct OpenNode {
    std::shared_ptr<Node> node;
    bool has_key = false;  // a key was read, its value comes next
    size_t key_line = 0;
  };

  static size_t Line(const YAML::Mark& mark) {
    return mark.line < 0 ? 1 : static_cast<size_t>(mark.line) + 1;
  }

  std::shared_ptr<Node> Make(Node::Kind kind, size_t line) const {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->file = file_;
    node->line = std::max<size_t>(line, 1);
    return node;
  }
  bool AtKey() const {
    return !open_.empty() && open_.back().node->kind == Node::Kind::kMap && !open_.back().has_key;
  }
  void Check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0)
      config_text::FailAt(*file_, Line(mark), "anchors (&name) are not supported; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      config_text::FailAt(*file_, Line(mark), "tags (!name) are not supported");
  }
  void SetKey(const YAML::Mark& mark, const std::string& key) {
    auto& map = open_.back();
    if (key.empty()) config_text::FailAt(*file_, Line(mark), "empty key");
    if (key.size() > kMaxKeyBytes) {
      config_text::FailAt(*file_, Line(mark),
                          "key " + Quoted(key) + " has " + std::to_string(key.size()) + " bytes; at most " +
                              std::to_string(kMaxKeyBytes) + " are allowed");
    }
    const auto [old, added] = map.node->index.emplace(key, map.node->keys.size());
    if (!added) {
      config_text::FailAt(*file_, Line(mark),
                          "duplicate key '" + key + "'; first defined in line " +
                              std::to_string(map.node->children[old->second]->line));
    }
    map.node->keys.push_back(key);
    map.has_key = true;
    map.key_line = Line(mark);
  }
  // Adds a node at the parser's position: as the root, a list item or the value of the last key.
  void Place(std::shared_ptr<Node> node) {
    if (open_.empty()) {
      node->line = 1;
      root_ = std::move(node);
      return;
    }
    auto& [parent, has_key, key_line] = open_.back();
    if (parent->kind == Node::Kind::kMap) {
      node->name = parent->keys.back();
      node->line = key_line;  // report the line of the key, not of the block below it
      has_key = false;
    } else {
      node->name = parent->title() + "[" + std::to_string(parent->children.size()) + "]";
    }
    parent->children.push_back(std::move(node));
  }
  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Check(mark, tag, anchor);
    if (AtKey()) config_text::FailAt(*file_, Line(mark), "a key must be a scalar, not a list or a map");
    if (open_.size() == kMaxDepth) {
      config_text::FailAt(*file_, Line(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    auto node = Make(kind, Line(mark));
    Place(node);
    open_.push_back({std::move(node)});
  }

  std::shared_ptr<const std::string> file_;
  std::shared_ptr<const Node> root_;
  std::vector<OpenNode> open_;
};

Config Config::Parse(std::string_view yaml, std::string_view name) {
  config_text::Check(yaml, name);
  std::istringstream stream{std::string(yaml)};
  Builder builder(name);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    config_text::FailAt(name, error.mark.line < 0 ? 1 : static_cast<size_t>(error.mark.line) + 1, error.msg);
  }
  return Config(builder.Take());
}

Config Config::ParseFile(const std::string& path) {
  const auto text = OrThrow(ReadFirstBytes(path, config_text::kMaxBytes + 1));
  if (text.size() > config_text::kMaxBytes)
    config_text::FailAt(path, 1,
                        "the file has more than " + std::to_string(config_text::kMaxBytes) + " bytes");
  return Parse(text, path);
}

}  // namespace leat
