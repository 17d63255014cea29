#include "stream/avro/avro_program.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/config/config.h"
#include "base/text.h"

namespace leat::stream {
namespace {

namespace dom = simdjson::dom;
using AvroKind = AvroType::Kind;

constexpr size_t kMaxNames = 1 << 16;  // fields of a record, or symbols of an enum
constexpr uint64_t kMaxFixed = uint64_t{1} << 30;
constexpr int64_t kMaxScale = 300;

// The first kinds of AvroType, and the bytes of their values.
constexpr std::array<std::string_view, 8> kPrimitives = {"null",  "boolean", "int",   "long",
                                                         "float", "double",  "bytes", "string"};
constexpr std::array<uint64_t, kPrimitives.size()> kPrimitiveBytes = {
    0, 1, AvroType::kVaries, AvroType::kVaries, 4, 8, AvroType::kVaries, AvroType::kVaries};

// All kinds, as messages call them; a name follows where there is one.
constexpr std::string_view kKindNames[] = {"null",     "a boolean", "an int",   "a long",     "a float",
                                           "a double", "bytes",     "a string", "the record", "the enum",
                                           "an array", "a map",     "a union",  "the fixed"};
static_assert(std::size(kKindNames) == static_cast<size_t>(AvroKind::kFixed) + 1);

Status Bad(const std::string& why) {
  return {Code::kDataLoss, why};
}

std::string_view TextMember(const dom::object& object, std::string_view key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

class Builder {
 public:
  Result<AvroSchema> Build(const dom::element& root) {
    for (size_t i = 0; i < kPrimitives.size(); ++i)
      schema_.types.push_back({.kind = static_cast<AvroKind>(i), .bytes = kPrimitiveBytes[i]});
    LEAT_ASSIGN_OR_RETURN(schema_.root, Read(root, "", 0));
    sized_.resize(schema_.types.size());
    for (uint32_t type = 0; type < schema_.types.size(); ++type) LEAT_RETURN_IF_ERROR(Size(type));
    return std::move(schema_);
  }

 private:
  using Types = Result<uint32_t>;  // an index

  Types Read(const dom::element& element, const std::string& space, size_t depth) {
    if (depth > AvroSchema::kMaxDepth) return Bad("is nested too deeply");
    if (element.is_string()) return Named(element.get_string().value_unsafe(), space);
    dom::array branches;
    if (element.get(branches) == simdjson::SUCCESS) return Union(branches, space, depth);
    dom::object object;
    if (element.get(object) != simdjson::SUCCESS) return Bad("a type is a name, an object or a list");
    dom::element type;
    if (object["type"].get(type) != simdjson::SUCCESS) return Bad("an object has no type");
    if (!type.is_string()) return Read(type, space, depth + 1);
    const std::string_view word = type.get_string().value_unsafe();
    if (word == "record" || word == "error") return Record(object, space, depth);
    if (word == "enum") return Enum(object, space);
    if (word == "fixed") return Fixed(object, space);
    if (word == "array" || word == "map") return Container(object, word == "map", space, depth);
    LEAT_ASSIGN_OR_RETURN(const uint32_t found, Named(word, space));
    if (found != static_cast<uint32_t>(AvroKind::kBytes) || TextMember(object, "logicalType") != "decimal")
      return found;
    AvroType bytes{.kind = AvroKind::kBytes};
    ReadDecimal(object, &bytes);
    return Add(std::move(bytes));
  }

  Types Add(AvroType type) {
    if (schema_.types.size() >= AvroSchema::kMaxTypes)
      return Bad(StrCat("has more than ", AvroSchema::kMaxTypes, " types"));
    schema_.types.push_back(std::move(type));
    return static_cast<uint32_t>(schema_.types.size() - 1);
  }

  // A name without dots is looked for in the namespace around it, and then in none.
  Types Named(std::string_view name, const std::string& space) {
    const auto primitive = std::ranges::find(kPrimitives, name);
    if (primitive != kPrimitives.end()) return static_cast<uint32_t>(primitive - kPrimitives.begin());
    auto found = named_.end();
    if (!space.empty() && name.find('.') == name.npos) found = named_.find(space + "." + std::string(name));
    if (found == named_.end()) found = named_.find(std::string(name));
    if (found != named_.end()) return found->second;
    std::vector<std::string> known(kPrimitives.begin(), kPrimitives.end());
    for (const auto& [other, at] : named_) known.push_back(other);
    const std::string near = Nearest(name, known);
    return Bad("unknown type " + Quoted(name) + (near.empty() ? "" : "; did you mean " + Quoted(near) + "?"));
  }

  Types Union(const dom::array& branches, const std::string& space, size_t depth) {
    AvroType type{.kind = AvroKind::kUnion};
    for (const dom::element branch : branches) {
      LEAT_ASSIGN_OR_RETURN(const uint32_t part, Read(branch, space, depth + 1));
      if (schema_.types[part].kind == AvroKind::kUnion) return Bad("a union contains a union");
      type.parts.push_back(part);
    }
    if (type.parts.empty()) return Bad("a union has no branches");
    return Add(std::move(type));
  }

  Types Container(const dom::object& object, bool map, const std::string& space, size_t depth) {
    dom::element item;
    if (object[map ? "values" : "items"].get(item) != simdjson::SUCCESS)
      return Bad(map ? "a map has no values" : "an array has no items");
    LEAT_ASSIGN_OR_RETURN(const uint32_t part, Read(item, space, depth + 1));
    return Add({.kind = map ? AvroKind::kMap : AvroKind::kArray, .parts = {part}});
  }

  // Adds a type with the object's name. `space`: the namespace around it, replaced by its own.
  Types AddNamed(const dom::object& object, AvroKind kind, std::string* space) {
    const std::string_view name = TextMember(object, "name");
    if (name.empty()) return Bad("a record, enum or fixed has no name");
    std::string_view own;
    if (const size_t dot = name.rfind('.'); dot != name.npos) {
      *space = name.substr(0, dot);
    } else if (object["namespace"].get(own) == simdjson::SUCCESS) {
      *space = own;
    }
    const std::string_view last = name.substr(name.rfind('.') + 1);
    std::string full = space->empty() ? std::string(last) : *space + "." + std::string(last);
    LEAT_ASSIGN_OR_RETURN(const uint32_t type, Add({.kind = kind, .name = full}));
    if (!named_.emplace(full, type).second) return Bad("the type " + Quoted(full) + " is defined twice");
    return type;
  }

  Types Record(const dom::object& object, std::string space, size_t depth) {
    LEAT_ASSIGN_OR_RETURN(const uint32_t type, AddNamed(object, AvroKind::kRecord, &space));
    const std::string name = Quoted(schema_.types[type].name);
    dom::array fields;
    if (object["fields"].get(fields) != simdjson::SUCCESS)
      return Bad("the record " + name + " has no list of fields");
    AvroType record;  // `types` grows meanwhile
    for (const dom::element element : fields) {
      dom::object field;
      dom::element of;
      if (element.get(field) != simdjson::SUCCESS || TextMember(field, "name").empty() ||
          field["type"].get(of) != simdjson::SUCCESS) {
        return Bad("a field of the record " + name + " lacks name or type");
      }
      LEAT_RETURN_IF_ERROR(AddName(TextMember(field, "name"), "field", name, &record));
      LEAT_ASSIGN_OR_RETURN(const uint32_t part,
                            Read(of, space, depth + 1).With("field " + Quoted(record.names.back())));
      record.parts.push_back(part);
    }
    LEAT_RETURN_IF_ERROR(CheckDistinct(record.names, "field", name));
    schema_.types[type].names = std::move(record.names);
    schema_.types[type].parts = std::move(record.parts);
    return type;
  }

  static Status AddName(std::string_view name, const char* what, const std::string& of, AvroType* type) {
    if (type->names.size() >= kMaxNames) return Bad(StrCat(of, " has more than ", kMaxNames, " ", what, "s"));
    type->names.emplace_back(name);
    return {};
  }

  static Status CheckDistinct(std::vector<std::string> names, const char* what, const std::string& of) {
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice == names.end()) return {};
    return Bad(of + " has the " + what + " " + Quoted(*twice) + " twice");
  }

  Types Enum(const dom::object& object, std::string space) {
    LEAT_ASSIGN_OR_RETURN(const uint32_t type, AddNamed(object, AvroKind::kEnum, &space));
    AvroType& added = schema_.types[type];
    const std::string name = Quoted(added.name);
    dom::array symbols;
    if (object["symbols"].get(symbols) != simdjson::SUCCESS)
      return Bad("the enum " + name + " has no list of symbols");
    for (const dom::element element : symbols) {
      std::string_view symbol;
      if (element.get(symbol) != simdjson::SUCCESS)
        return Bad("a symbol of the enum " + name + " is no text");
      LEAT_RETURN_IF_ERROR(AddName(symbol, "symbol", name, &added));
    }
    LEAT_RETURN_IF_ERROR(CheckDistinct(added.names, "symbol", name));
    return type;
  }

  Types Fixed(const dom::object& object, std::string space) {
    LEAT_ASSIGN_OR_RETURN(const uint32_t type, AddNamed(object, AvroKind::kFixed, &space));
    AvroType& added = schema_.types[type];
    uint64_t size;
    if (object["size"].get(size) != simdjson::SUCCESS || size > kMaxFixed)
      return Bad(StrCat("the fixed ", Quoted(added.name), " has no size from 0 to ", kMaxFixed));
    added.bytes = size;
    ReadDecimal(object, &added);
    return type;
  }

  // Invalid attributes make it a plain type, as the specification says.
  static void ReadDecimal(const dom::object& object, AvroType* type) {
    if (TextMember(object, "logicalType") != "decimal") return;
    int64_t precision = 0, scale = 0;
    if (object["precision"].get(precision) != simdjson::SUCCESS || precision <= 0) return;
    if (const auto error = object["scale"].get(scale); error && error != simdjson::NO_SUCH_FIELD) return;
    if (scale < 0 || scale > precision || scale > kMaxScale) return;
    type->decimal = true;
    type->scale = static_cast<uint32_t>(scale);
  }

  // Finds the bytes of each value, from the parts up. Fails for a record that contains itself.
  Status Size(uint32_t at) {
    AvroType& type = schema_.types[at];
    if (type.kind != AvroKind::kRecord || sized_[at] == Sized::kDone) return {};
    if (sized_[at] == Sized::kBegun) return Bad("the record " + Quoted(type.name) + " contains itself");
    sized_[at] = Sized::kBegun;
    uint64_t sum = 0;
    for (const uint32_t part : type.parts) {
      LEAT_RETURN_IF_ERROR(Size(part));
      const uint64_t bytes = schema_.types[part].bytes;
      sum = bytes > kMaxFixed || sum > kMaxFixed ? AvroType::kVaries : sum + bytes;
    }
    type.bytes = sum;
    sized_[at] = Sized::kDone;
    return {};
  }

  AvroSchema schema_;
  std::map<std::string, uint32_t, std::less<>> named_;
  enum class Sized : uint8_t { kNot, kBegun, kDone };
  std::vector<Sized> sized_;
};

}  // namespace

std::string AvroType::Describe() const {
  const std::string text(kKindNames[static_cast<size_t>(kind)]);
  return text.starts_with("the ") ? text + " " + Quoted(name) : text;
}

Result<AvroSchema> AvroSchema::Parse(std::string_view json) {
  if (json.size() > kMaxText) return Bad(StrCat("has ", json.size(), " bytes; at most ", kMaxText));
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root))
    return Bad(std::string("is not JSON: ") + simdjson::error_message(error));
  return Builder().Build(root);
}

Result<std::string> MinifyJson(std::string_view json) {
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root))
    return Bad(std::string("is not JSON: ") + simdjson::error_message(error));
  return simdjson::minify(root);
}

}  // namespace leat::stream
