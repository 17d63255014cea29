// From a writer's schema and the fields of a job to the steps of a program.
#include "stream/avro/avro_program.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/config/config.h"

namespace leat::stream {
namespace {

using AvroKind = AvroType::Kind;

// Records that many branches of unions share are visited for each.
constexpr size_t kMaxVisited = 1 << 18;

bool IsNumber(const AvroType& type) {
  return (type.kind >= AvroKind::kBoolean && type.kind <= AvroKind::kDouble) || type.decimal;
}

}  // namespace

class AvroCompiler {
 public:
  AvroCompiler(AvroSchema avro, const Schema& schema, const Writers& writers, bool lenient)
      : schema_(schema), writers_(writers), lenient_(lenient), types_(avro.types) {
    program_.avro_ = std::move(avro);
    program_.found_.resize(schema.fields.size());
    unfit_.resize(schema.fields.size());
    missed_.resize(schema.fields.size());
  }

  Result<AvroProgram> Compile(std::string* where) {
    where->clear();
    std::vector<size_t> wanted;
    for (size_t i = 0; i < writers_.size(); ++i) {
      if (writers_[i]) wanted.push_back(i);
    }
    const uint32_t root = program_.avro_.root;
    if (types_[root].kind != AvroKind::kRecord && types_[root].kind != AvroKind::kUnion)
      return Status(Code::kInvalidArgument, "is " + types_[root].Describe() + ", not a record");
    Inside(root, "", wanted, 0);
    Add({.op = Op::kEnd}, "");
    if (full_) {
      return Status(Code::kInvalidArgument,
                    "needs more than " + std::to_string(AvroProgram::kMaxSteps) + " steps to read");
    }
    for (const size_t i : wanted) {
      if (program_.found_[i] || (lenient_ && writers_[i]->has_default() && unfit_[i].empty())) continue;
      *where = schema_.fields[i].where;
      return Status(Code::kInvalidArgument, unfit_[i].empty() ? Unknown(i) : unfit_[i]);
    }
    return std::move(program_);
  }

 private:
  using Op = AvroProgram::Op;

  void Add(AvroProgram::Step step, const std::string& name) {
    if (program_.steps_.size() >= AvroProgram::kMaxSteps) {
      full_ = true;
      return;
    }
    program_.steps_.push_back(step);
    program_.names_.push_back(name);
  }
  void ForField(Op op, size_t field, uint64_t count = 0, uint32_t target = 0) {
    const FieldWriter* writer = writers_[field].get();
    Add({.op = op, .field = writer, .count = count, .target = target}, writer->name());
  }

  // Steps for a value through which the paths of `wanted` lead, after their first `depth` keys.
  void Inside(uint32_t type, const std::string& name, const std::vector<size_t>& wanted, size_t depth) {
    if (full_) return;
    if (types_[type].kind == AvroKind::kRecord) return Fields(type, name, wanted, depth);
    if (types_[type].kind == AvroKind::kUnion) {
      return Branches(type, name, [&](uint32_t branch) { Inside(branch, name, wanted, depth); });
    }
    const bool null = types_[type].kind == AvroKind::kNull;
    Skip(type, name);
    for (const size_t field : wanted) {
      if (!null) {
        Note(field, "is inside " + Quoted(name) + ", which is " + types_[type].Describe() +
                        "; paths lead through records");
      }
      if (writers_[field]->has_default()) {
        ForField(Op::kDefault, field);
      } else {
        ForField(null ? Op::kIsNull : Op::kIsMissing, field);
      }
    }
  }

  void Fields(uint32_t type, const std::string& name, const std::vector<size_t>& wanted, size_t depth) {
    const AvroType& record = types_[type];
    std::vector<size_t> missing = wanted;
    for (size_t i = 0; i < record.parts.size() && !full_; ++i) {
      if (++visited_ > kMaxVisited) full_ = true;
      std::vector<size_t> here;
      const auto leads_here = [&](size_t field) { return KeyOf(field, depth) == record.names[i]; };
      std::ranges::copy_if(missing, std::back_inserter(here), leads_here);
      std::erase_if(missing, leads_here);
      const std::string part = name.empty() ? record.names[i] : name + "." + record.names[i];
      if (here.empty()) {
        Skip(record.parts[i], part);
      } else if (schema_.fields[here[0]].path.size() == depth + 1) {
        Value(record.parts[i], here[0]);  // no other path leads on from here
      } else {
        Inside(record.parts[i], part, here, depth + 1);
      }
    }
    for (const size_t field : missing) {
      if (!missed_[field]) missed_[field] = Miss{.record = type, .depth = depth};
      ForField(writers_[field]->has_default() ? Op::kDefault : Op::kIsMissing, field);
    }
  }

  const std::string& KeyOf(size_t field, size_t depth) const { return schema_.fields[field].path[depth]; }

  template <class Branch>
  void Branches(uint32_t type, const std::string& name, const Branch& branch) {
    const std::vector<uint32_t>& parts = types_[type].parts;
    const auto first = static_cast<uint32_t>(program_.targets_.size());
    Add({.op = Op::kUnion, .count = parts.size(), .target = first}, name);
    program_.targets_.resize(first + parts.size());
    std::vector<size_t> jumps;
    for (size_t i = 0; i < parts.size() && !full_; ++i) {
      program_.targets_[first + i] = boundary_ = Here();
      branch(parts[i]);
      if (i + 1 == parts.size()) break;
      jumps.push_back(Here());
      Add({.op = Op::kJump}, name);
    }
    if (full_) return;
    boundary_ = Here();
    for (const size_t jump : jumps) program_.steps_[jump].target = boundary_;
  }

  uint32_t Here() const { return static_cast<uint32_t>(program_.steps_.size()); }

  void Value(uint32_t type, size_t field) {
    if (types_[type].kind == AvroKind::kUnion)
      return Branches(type, writers_[field]->name(), [&](uint32_t branch) { Value(branch, field); });
    if (types_[type].kind == AvroKind::kNull) {
      return ForField(writers_[field]->has_default() ? Op::kDefault : Op::kIsNull, field);
    }
    const auto op = OpFor(type, field);
    if (!op) {
      Note(field, "is " + types_[type].Describe() + " in the Avro schema, not " + Taken(field));
      return ForField(Op::kIsOther, field, type);
    }
    program_.found_[field] = true;
    uint32_t target = 0;
    uint64_t count = type;
    if (*op == Op::kEnum) {
      count = types_[type].names.size();
      target = static_cast<uint32_t>(program_.symbols_.size());
      auto& symbols = program_.symbols_.emplace_back();
      symbols.type = type;
      const bool category = schema_.fields[field].type == Field::Type::kCategory;
      for (const std::string& symbol : types_[type].names) {
        if (category) symbols.places.push_back(writers_[field]->PlaceOf(symbol));
      }
    }
    ForField(*op, field, count, target);
  }

  // Nothing if the field does not take such values.
  std::optional<Op> OpFor(uint32_t index, size_t field) const {
    const AvroType& type = types_[index];
    const FieldWriter& writer = *writers_[field];
    if (writer.takes_list()) {
      if (type.kind == AvroKind::kArray && TakesItem(type.parts[0])) return Op::kList;
      return std::nullopt;
    }
    const bool text = !writer.takes_number();
    switch (type.kind) {
      case AvroKind::kBoolean:
        return text ? Op::kBooleanText : Op::kBoolean;
      case AvroKind::kInt:
        return text ? Op::kIntText : Op::kInt;
      case AvroKind::kLong:
        return text ? Op::kLongText : Op::kLong;
      case AvroKind::kString:
        return text ? std::optional(Op::kString) : std::nullopt;
      case AvroKind::kEnum:
        return text ? std::optional(Op::kEnum) : std::nullopt;
      default:
        break;
    }
    if (text || !IsNumber(type)) return std::nullopt;
    if (type.kind == AvroKind::kFloat) return Op::kFloat;
    if (type.kind == AvroKind::kDouble) return Op::kDouble;
    return type.kind == AvroKind::kBytes ? Op::kDecimal : Op::kFixedDecimal;
  }

  bool TakesItem(uint32_t type) const {
    if (types_[type].kind != AvroKind::kUnion) return IsNumber(types_[type]);
    return std::ranges::any_of(types_[type].parts, [&](uint32_t part) { return IsNumber(types_[part]); });
  }

  void Skip(uint32_t type, const std::string& name) {
    const AvroType& skipped = types_[type];
    if (skipped.bytes == 0) return;
    if (skipped.bytes != AvroType::kVaries) {
      // Continues the step before, unless a branch may end between them.
      auto& steps = program_.steps_;
      if (!steps.empty() && steps.back().op == Op::kSkipBytes && boundary_ != Here()) {
        steps.back().count += skipped.bytes;
      } else {
        Add({.op = Op::kSkipBytes, .count = skipped.bytes}, name);
      }
    } else if (skipped.kind == AvroKind::kInt || skipped.kind == AvroKind::kLong ||
               skipped.kind == AvroKind::kEnum) {
      Add({.op = Op::kSkipNumber}, name);
    } else if (skipped.kind == AvroKind::kString || skipped.kind == AvroKind::kBytes) {
      Add({.op = Op::kSkipText}, name);
    } else {
      Add({.op = Op::kSkipValue, .count = type}, name);
    }
  }

  // The first reason why a field does not fit is the one that is shown.
  void Note(size_t field, const std::string& why) {
    if (unfit_[field].empty())
      unfit_[field] = "field " + Quoted(schema_.fields[field].path_text()) + " " + why;
  }

  std::string Taken(size_t field) const {
    if (writers_[field]->takes_list()) return "an array of numbers";
    return writers_[field]->takes_number() ? "a number" : "a string, enum, int, long or boolean";
  }

  std::string Unknown(size_t field) const {
    const std::string name = "field " + Quoted(schema_.fields[field].path_text());
    if (!missed_[field]) return name + " is always null in the Avro schema";
    const AvroType& record = types_[missed_[field]->record];
    const std::string& key = KeyOf(field, missed_[field]->depth);
    const std::string near = Nearest(key, record.names);
    return name + " is not in the Avro schema: " + record.Describe() + " has no field " + Quoted(key) +
           (near.empty() ? "" : "; did you mean " + Quoted(near) + "?");
  }

  const Schema& schema_;
  const Writers& writers_;
  const bool lenient_;
  const std::vector<AvroType> types_;
  AvroProgram program_;
  std::vector<std::string> unfit_;  // by field: why the schema's type does not suit it; empty: it does
  // The record type that first lacked a field, and the depth in the field's path.
  struct Miss {
    uint32_t record = 0;
    size_t depth = 0;
  };
  std::vector<std::optional<Miss>> missed_;
  uint32_t boundary_ = 0;  // the last step that others than the one before it may lead to
  size_t visited_ = 0;     // fields of records
  bool full_ = false;
};

Result<AvroProgram> AvroProgram::Compile(AvroSchema avro, const Schema& schema, const Writers& writers,
                                         bool lenient, std::string* where) {
  return AvroCompiler(std::move(avro), schema, writers, lenient).Compile(where);
}

}  // namespace leat::stream
