#include "stream/protobuf/message_table.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>

#include "base/encoding/varint.h"

namespace leat::stream {
namespace {

namespace pb = google::protobuf;
using Type = pb::FieldDescriptor;

// A table of this many numbers is faster than a search.
constexpr uint32_t kSmallNumbers = 256;

[[noreturn]] void Fail(const std::string& where, const std::string& why) {
  throw std::invalid_argument(where + ": " + why);
}

std::string Hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = Nearest(word, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

class FirstError final : public pb::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& file, const std::string& element, const pb::Message*, ErrorLocation,
                const std::string& message) override {
    if (text.empty()) text = file + ": " + element + ": " + message;
  }
  std::string text;
};

// The files of a descriptor, each after those that it imports.
struct Files {
  pb::FileDescriptorSet set;
  pb::DescriptorPool pool;
  std::vector<const pb::FileDescriptor*> built;
};

void Build(std::string_view bytes, const ProtobufSettings& settings, Files* files) {
  const auto fail = [&](const std::string& why) {
    Fail(settings.where, (settings.file.empty() ? "descriptor" : settings.file) + ": " + why);
  };
  // A required field of it may be missing: libprotobuf would print a line.
  if (!files->set.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      files->set.file_size() == 0) {
    fail("is not a descriptor set, as protoc --include_imports --descriptor_set_out writes it");
  }
  for (const auto& file : files->set.file()) {
    for (const std::string& import : file.dependency()) {
      if (files->pool.FindFileByName(import) == nullptr)
        fail("lacks " + import + ", which " + file.name() + " imports; run protoc with --include_imports");
    }
    FirstError error;
    const auto* built = files->pool.BuildFileCollectingErrors(file, &error);
    if (built == nullptr) fail(error.text.empty() ? file.name() + " is invalid" : error.text);
    files->built.push_back(built);
  }
}

void AddNames(const pb::Descriptor& message, std::vector<std::string>* names) {
  names->push_back(message.full_name());
  for (int i = 0; i < message.nested_type_count(); ++i) AddNames(*message.nested_type(i), names);
}

const pb::Descriptor& FindMessage(const Files& files, const ProtobufSettings& settings) {
  const auto* message = files.pool.FindMessageTypeByName(settings.message);
  if (message != nullptr) return *message;
  std::vector<std::string> names;
  for (const auto* file : files.built) {
    for (int i = 0; i < file->message_type_count(); ++i) AddNames(*file->message_type(i), &names);
  }
  std::string near = Hint(settings.message, names);
  // A name without its package.
  for (const std::string& name : names) {
    if (near.empty() && name.ends_with("." + settings.message)) near = "; did you mean '" + name + "'?";
  }
  Fail(settings.where, "the message '" + settings.message + "' is not in " + settings.file + near);
}

const pb::FieldDescriptor& FindField(const pb::Descriptor& message, const std::string& name,
                                     const Field& field) {
  const auto* found = message.FindFieldByName(name);
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  Fail(field.where, "'" + field.path_text() + "': " + message.full_name() + " has no field '" + name + "'" +
                        Hint(name, names));
}

bool IsOpen(const pb::FieldDescriptor& field) {
  return field.file()->syntax() == pb::FileDescriptor::SYNTAX_PROTO3;
}

// Throws if the schema's field cannot take the values.
void CheckType(const pb::FieldDescriptor& found, const Field& field) {
  const std::string name = "'" + field.path_text() + "' ";
  const auto type = found.type();
  const std::string is =
      name + "is " + (found.is_repeated() ? "a repeated " : "of type ") + found.type_name();
  if (found.message_type() != nullptr)
    Fail(field.where, is + "; a path to a value in it ends with that value's name");
  const bool takes_text = field.type == Field::Type::kCategory || field.type == Field::Type::kText;
  const bool takes_list = field.list && !takes_text;
  if (found.is_repeated() && !takes_list)
    Fail(field.where, is + "; only an id or a number with a length takes a list");
  if (!found.is_repeated() && takes_list) Fail(field.where, is + ", and no list: it goes without length");
  const bool text = type == Type::TYPE_STRING || type == Type::TYPE_BYTES;
  const bool real = type == Type::TYPE_FLOAT || type == Type::TYPE_DOUBLE;
  if (takes_text && real) Fail(field.where, is + ", and neither a category nor a text");
  if (!takes_text && text) Fail(field.where, is + ", which only a category or a text takes");
  if (field.fallback && !found.is_repeated() && !found.has_presence() && field.path.size() == 1)
    Fail(field.where, is + " without presence: it is never missing, and its default would not be used");
}

// The fields that a schema reads: each path's, from the record's message.
using Path = std::vector<const pb::FieldDescriptor*>;
std::vector<Path> FindPaths(const pb::Descriptor& message, const Schema& schema) {
  std::vector<Path> paths;
  for (const Field& field : schema.fields) {
    Path& path = paths.emplace_back();
    if (field.role == Role::kIgnore || field.from) continue;
    const pb::Descriptor* at = &message;
    for (const std::string& key : field.path) {
      if (at == nullptr) {
        Fail(field.where, "'" + field.path_text() + "': " + path.back()->name() + " is of type " +
                              path.back()->type_name() + ", and no message");
      }
      if (!path.empty() && path.back()->is_repeated())
        Fail(field.where, "'" + field.path_text() + "': " + path.back()->name() + " is repeated");
      path.push_back(&FindField(*at, key, field));
      at = path.back()->message_type();
    }
    CheckType(*path.back(), field);
  }
  return paths;
}

// Removes from descriptors what no path needs.
class Pruner {
 public:
  Pruner(const pb::Descriptor& message, const std::vector<Path>& paths) {
    needed_[&message];
    for (const Path& path : paths) {
      for (const auto* field : path) Need(*field, true);
    }
  }

  std::string Prune(const Files& files) const {
    pb::FileDescriptorSet out;
    for (const auto* file : files.built) {
      pb::FileDescriptorProto all;
      file->CopyTo(&all);
      pb::FileDescriptorProto kept;
      kept.set_name(all.name());
      kept.set_package(all.package());
      kept.set_syntax(all.syntax());
      for (int i = 0; i < file->message_type_count(); ++i) {
        if (Keep(*file->message_type(i), all.mutable_message_type(i)))
          kept.add_message_type()->Swap(all.mutable_message_type(i));
      }
      for (int i = 0; i < file->enum_type_count(); ++i) {
        if (Keep(*file->enum_type(i), all.mutable_enum_type(i)))
          kept.add_enum_type()->Swap(all.mutable_enum_type(i));
      }
      if (kept.message_type_size() == 0 && kept.enum_type_size() == 0) continue;
      for (const auto& earlier : out.file()) kept.add_dependency(earlier.name());
      out.add_file()->Swap(&kept);
    }
    return out.SerializeAsString();
  }

 private:
  void Need(const pb::FieldDescriptor& field, bool read) {
    auto& fields = needed_[field.containing_type()];
    bool& is_read = fields[&field];
    is_read |= read;
    if (field.enum_type() != nullptr) enums_.insert(field.enum_type());
    if (field.message_type() != nullptr && (read || field.type() == Type::TYPE_GROUP))
      needed_[field.message_type()];
    const auto* oneof = field.containing_oneof();
    if (!read || oneof == nullptr) return;
    for (int i = 0; i < oneof->field_count(); ++i) {
      if (oneof->field(i) != &field) Need(*oneof->field(i), false);
    }
  }

  bool Keep(const pb::EnumDescriptor& type, pb::EnumDescriptorProto* proto) const {
    if (!enums_.contains(&type)) return false;
    const bool alias = type.options().allow_alias();
    proto->clear_options();
    if (alias) proto->mutable_options()->set_allow_alias(true);
    proto->clear_reserved_range();
    proto->clear_reserved_name();
    for (auto& value : *proto->mutable_value()) value.clear_options();
    return true;
  }

  bool Keep(const pb::Descriptor& message, pb::DescriptorProto* proto) const {
    pb::DescriptorProto kept;
    kept.set_name(proto->name());
    for (int i = 0; i < message.nested_type_count(); ++i) {
      if (Keep(*message.nested_type(i), proto->mutable_nested_type(i)))
        kept.add_nested_type()->Swap(proto->mutable_nested_type(i));
    }
    for (int i = 0; i < message.enum_type_count(); ++i) {
      if (Keep(*message.enum_type(i), proto->mutable_enum_type(i)))
        kept.add_enum_type()->Swap(proto->mutable_enum_type(i));
    }
    if (const auto needed = needed_.find(&message); needed != needed_.end()) {
      KeepFields(message, needed->second, proto, &kept);
    } else if (kept.nested_type_size() == 0 && kept.enum_type_size() == 0) {
      return false;
    }
    proto->Swap(&kept);
    return true;
  }

  using Fields = std::map<const pb::FieldDescriptor*, bool>;  // whether they are read
  static void KeepFields(const pb::Descriptor& message, const Fields& fields, pb::DescriptorProto* proto,
                         pb::DescriptorProto* kept) {
    std::map<int, int> oneofs;  // their new indexes, in the same order
    for (const auto& [field, read] : fields) {
      if (field->containing_oneof() != nullptr) oneofs[field->containing_oneof()->index()];
    }
    for (auto& [index, place] : oneofs) {
      place = kept->oneof_decl_size();
      kept->add_oneof_decl()->set_name(message.oneof_decl(index)->name());
    }
    for (int i = 0; i < message.field_count(); ++i) {
      const auto found = fields.find(message.field(i));
      if (found == fields.end()) continue;
      pb::FieldDescriptorProto* field = kept->add_field();
      field->Swap(proto->mutable_field(i));
      field->clear_options();
      field->clear_json_name();
      if (field->has_oneof_index()) field->set_oneof_index(oneofs.at(field->oneof_index()));
      if (found->second) continue;
      // Only that it is there counts.
      field->clear_default_value();
      if (message.field(i)->type() != Type::TYPE_MESSAGE && message.field(i)->type() != Type::TYPE_STRING)
        continue;
      field->set_type(pb::FieldDescriptorProto::TYPE_BYTES);
      field->clear_type_name();
    }
  }

  std::map<const pb::Descriptor*, Fields> needed_;
  std::set<const pb::EnumDescriptor*> enums_;
};

// How the values of a type are read, and their wire type.
struct TypeCode {
  MessageTable::Kind kind;
  WireType wire;
};
TypeCode CodeOf(const pb::FieldDescriptor& field) {
  using Kind = MessageTable::Kind;
  using Wire = WireType;
  // By number of the type, from 1 on.
  static constexpr TypeCode kCodes[] = {
      {Kind::kDouble, Wire::kFixed64},  {Kind::kFloat, Wire::kFixed32}, {Kind::kInt64, Wire::kVarint},
      {Kind::kUint64, Wire::kVarint},   {Kind::kInt32, Wire::kVarint},  {Kind::kUint64, Wire::kFixed64},
      {Kind::kUint32, Wire::kFixed32},  {Kind::kBool, Wire::kVarint},   {Kind::kText, Wire::kBytes},
      {Kind::kText, Wire::kStartGroup}, {Kind::kText, Wire::kBytes},    {Kind::kText, Wire::kBytes},
      {Kind::kUint32, Wire::kVarint},   {Kind::kInt32, Wire::kVarint},  {Kind::kInt32, Wire::kFixed32},
      {Kind::kInt64, Wire::kFixed64},   {Kind::kSint32, Wire::kVarint}, {Kind::kSint64, Wire::kVarint}};
  static_assert(std::size(kCodes) == Type::MAX_TYPE && Type::TYPE_DOUBLE == 1 && Type::TYPE_GROUP == 10 &&
                Type::TYPE_ENUM == 14);
  return kCodes[field.type() - 1];
}

// The bits of a number as the wire has them.
uint64_t DeclaredBits(const pb::FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case Type::CPPTYPE_INT32: {
      const int32_t x = field.default_value_int32();
      return field.type() == Type::TYPE_SINT32 ? ZigZag(x) : static_cast<uint64_t>(x);
    }
    case Type::CPPTYPE_INT64: {
      const int64_t x = field.default_value_int64();
      return field.type() == Type::TYPE_SINT64 ? ZigZag(x) : static_cast<uint64_t>(x);
    }
    case Type::CPPTYPE_UINT32:
      return field.default_value_uint32();
    case Type::CPPTYPE_UINT64:
      return field.default_value_uint64();
    case Type::CPPTYPE_FLOAT:
      return std::bit_cast<uint32_t>(field.default_value_float());
    case Type::CPPTYPE_DOUBLE:
      return std::bit_cast<uint64_t>(field.default_value_double());
    case Type::CPPTYPE_BOOL:
      return field.default_value_bool() ? 1 : 0;
    case Type::CPPTYPE_ENUM:
      return static_cast<uint64_t>(field.default_value_enum()->number());
    default:
      return 0;
  }
}

class Compiler {
 public:
  Compiler(const Schema& schema, const std::vector<Path>& paths) {
    table_.values.resize(paths.size());
    table_.slots = static_cast<uint32_t>(paths.size());
    AddNode();
    for (size_t i = 0; i < paths.size(); ++i) {
      if (!paths[i].empty()) AddPath(schema.fields[i], paths[i], static_cast<uint32_t>(i));
    }
  }

  MessageTable Take() {
    for (size_t i = 0; i < table_.nodes.size(); ++i) AddOneofs(static_cast<uint32_t>(i));
    for (auto& node : table_.nodes) {
      std::ranges::sort(node.entries, {}, &MessageTable::Entry::number);
      if (node.entries.empty()) continue;
      node.place.assign(std::min(kSmallNumbers, node.entries.back().number + 1), 0);
      for (size_t i = 0; i < node.entries.size(); ++i) {
        if (node.entries[i].number < node.place.size())
          node.place[node.entries[i].number] = static_cast<uint16_t>(i + 1);
      }
    }
    return std::move(table_);
  }

 private:
  using Entry = MessageTable::Entry;

  uint32_t AddNode() {
    table_.nodes.push_back({.slot = table_.slots++});
    fields_.emplace_back();
    return static_cast<uint32_t>(table_.nodes.size() - 1);
  }

  // The index of the field's entry, which is added if it is not there.
  size_t AddEntry(uint32_t node, const pb::FieldDescriptor& field) {
    const auto [at, added] = fields_[node].emplace(&field, table_.nodes[node].entries.size());
    if (!added) return at->second;
    Entry entry{.number = static_cast<uint32_t>(field.number()), .wire = CodeOf(field).wire};
    entry.repeated = field.is_repeated();
    if (field.enum_type() != nullptr && !IsOpen(field)) entry.closed = AddEnum(*field.enum_type());
    table_.nodes[node].entries.push_back(std::move(entry));
    return at->second;
  }

  uint32_t AddEnum(const pb::EnumDescriptor& type) {
    const auto [at, added] = enums_.emplace(&type, static_cast<uint32_t>(table_.enums.size()));
    if (!added) return at->second;
    MessageTable::Enum values;
    for (int i = 0; i < type.value_count(); ++i) {
      const int32_t number = type.value(i)->number();
      values.emplace_back(number, type.FindValueByNumber(number)->name());
    }
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    table_.enums.push_back(std::move(values));
    return at->second;
  }

  void AddPath(const Field& field, const Path& path, uint32_t slot) {
    uint32_t node = 0;
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      const size_t entry = AddEntry(node, *path[i]);
      if (table_.nodes[node].entries[entry].node == MessageTable::kNone) {
        const uint32_t child = AddNode();
        table_.nodes[node].entries[entry].node = child;
      }
      node = table_.nodes[node].entries[entry].node;
    }
    const pb::FieldDescriptor& last = *path.back();
    Entry& entry = table_.nodes[node].entries[AddEntry(node, last)];
    entry.slot = slot;
    entry.utf8 = last.type() == Type::TYPE_STRING;
    MessageTable::Value& value = table_.values[slot];
    value.kind = CodeOf(last).kind;
    value.parent = table_.nodes[node].slot;
    if (last.enum_type() != nullptr) value.names = AddEnum(*last.enum_type());
    if (last.is_repeated()) return;
    // The job's default goes before the descriptor's.
    if (last.has_presence() && (field.fallback || !last.has_default_value())) return;
    value.absent = DeclaredBits(last);
    if (value.kind == MessageTable::Kind::kText) value.absent_text = last.default_value_string();
  }

  // All slots of what an entry leads to.
  void AddSlots(const Entry& entry, std::vector<uint32_t>* slots) const {
    if (entry.slot != MessageTable::kNone) slots->push_back(entry.slot);
    if (entry.node == MessageTable::kNone) return;
    slots->push_back(table_.nodes[entry.node].slot);
    for (const Entry& inner : table_.nodes[entry.node].entries) AddSlots(inner, slots);
  }

  void AddOneofs(uint32_t node) {
    const auto read = fields_[node];
    for (const auto& [field, index] : read) {
      const auto* oneof = field->real_containing_oneof();
      if (oneof == nullptr) continue;
      std::vector<uint32_t> slots;
      AddSlots(table_.nodes[node].entries[index], &slots);
      for (int i = 0; i < oneof->field_count(); ++i) {
        if (oneof->field(i) == field) continue;
        auto& clears = table_.nodes[node].entries[AddEntry(node, *oneof->field(i))].clears;
        clears.insert(clears.end(), slots.begin(), slots.end());
      }
    }
  }

  MessageTable table_;
  std::vector<std::map<const pb::FieldDescriptor*, size_t>> fields_;  // by node: the entries of its fields
  std::map<const pb::EnumDescriptor*, uint32_t> enums_;
};

}  // namespace

const MessageTable::Entry* MessageTable::Find(const Node& node, uint32_t number) const {
  if (number < node.place.size()) {
    const uint16_t place = node.place[number];
    return place == 0 ? nullptr : &node.entries[place - size_t{1}];
  }
  const auto at = std::ranges::lower_bound(node.entries, number, {}, &Entry::number);
  return at == node.entries.end() || at->number != number ? nullptr : &*at;
}

MessageTable CompileTable(const Schema& schema) {
  Files files;
  Build(schema.protobuf.descriptor, schema.protobuf, &files);
  return Compiler(schema, FindPaths(FindMessage(files, schema.protobuf), schema)).Take();
}

void UseDescriptor(std::string_view descriptor, Schema* schema) {
  Files files;
  Build(descriptor, schema->protobuf, &files);
  const pb::Descriptor& message = FindMessage(files, schema->protobuf);
  schema->protobuf.descriptor = Pruner(message, FindPaths(message, *schema)).Prune(files);
}

}  // namespace leat::stream
