#include "stream/avro/avro_program.h"

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/config/config.h"
#include "base/exit_status.h"
#include "base/text.h"
#include "net/http_client/http_client.h"
#include "stream/avro/schema_registry.h"

namespace leat::stream {
namespace {

using AvroKind = AvroType::Kind;

// Records that many branches of unions share are visited for each.
constexpr size_t kMaxVisited = 1 << 18;

bool IsNumber(const AvroType& type) {
  return (type.kind >= AvroKind::kBoolean && type.kind <= AvroKind::kDouble) || type.decimal;
}

namespace dom = simdjson::dom;

bool IsSilence(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

// {"schema": "TEXT", "schemaType": "AVRO", "references": []}; the last two are optional.
Result<std::string> SchemaIn(std::string_view body) {
  dom::parser parser;
  dom::object reply;
  std::string_view schema, type;
  dom::array references;
  if (parser.parse(body).get(reply) != simdjson::SUCCESS ||
      reply["schema"].get(schema) != simdjson::SUCCESS) {
    return Status(Code::kDataLoss, "the reply has no schema: " + Quoted(body));
  }
  if (reply["schemaType"].get(type) == simdjson::SUCCESS && type != "AVRO")
    return Status(Code::kDataLoss, "the schema is " + Quoted(type) + ", not Avro");
  if (reply["references"].get(references) == simdjson::SUCCESS && references.size() > 0)
    return Status(Code::kDataLoss,
                  "the schema refers to other schemas of the registry, which is not supported");
  return std::string(schema);
}

class HttpSchemaService final : public SchemaService {
 public:
  HttpSchemaService(std::string url, net::HttpClient::Options options)
      : url_(std::move(url)), client_(net::MakeHttpClient(options)) {}

  Result<std::string> Get(uint32_t id, Duration timeout) override {
    const std::string url = StrCat(url_, "/schemas/ids/", id);
    LEAT_ASSIGN_OR_RETURN(
        const net::HttpClient::Reply reply,
        client_->Do({.url = url,
                     .headers = {{"Accept", "application/vnd.schemaregistry.v1+json, application/json"}},
                     .timeout = timeout,
                     .name = url}));
    if (reply.status == 200) return SchemaIn(AsText(reply.body)).With(url);
    const std::string said = StrCat(url, ": the registry answers ", reply.status);
    if (reply.status == 404) return Status(Code::kNotFound, said);
    const bool later = reply.status >= 500 || reply.status == 429;
    return Status(later ? Code::kUnavailable : Code::kPermissionDenied, said);
  }

 private:
  const std::string url_;
  const std::unique_ptr<net::HttpClient> client_;
};

// A registry's schemas are asked for again if a stream has more.
constexpr size_t kMaxPrograms = 1000;

// `where`: the place in the job of the field that does not fit; may be empty.
Result<AvroProgram> CompileText(const std::string& text, const Schema& schema, const Writers& writers,
                                std::string* where) {
  where->clear();
  LEAT_ASSIGN_OR_RETURN(AvroSchema avro, AvroSchema::Parse(text));
  return AvroProgram::Compile(std::move(avro), schema, writers, schema.avro.framed(), where);
}

// The schema's name in messages.
std::string WriterName(const AvroSettings& avro, uint32_t id) {
  if (!avro.framed()) return avro.file;
  if (const auto file = avro.files.find(id); file != avro.files.end()) return file->second;
  return StrCat(avro.folder, "/", id, ".avsc");
}

class AvroDecoder final : public Decoder {
 public:
  AvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry)
      : schema_(schema), writers_(MakeWriters(schema_)), registry_(std::move(registry)) {
    for (const auto& [id, text] : schema_.avro.texts) {
      std::string where;
      auto program = CompileText(text, schema_, writers_, &where);
      if (!program.ok())
        throw std::invalid_argument(WriterName(schema_.avro, id) + ": " + program.status().message());
      programs_[id].program = std::move(*program);
    }
    if (!schema_.avro.framed() && programs_.empty())
      throw std::invalid_argument(schema_.avro.where + ": the Avro schema has not been read");
    if (!schema_.avro.framed()) plain_ = &*programs_.at(0).program;
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink sink(schema_, batch, out);
    Misfit why;
    if (plain_ != nullptr) {
      for (size_t i = 0; i < batch.size(); ++i) Take(*plain_, batch[i], i, &sink, &why);
      return;
    }
    if (registry_) FindSchemas(batch);
    uint32_t last = 0;
    const Known* known = nullptr;  // the last record's
    for (size_t i = 0; i < batch.size(); ++i) {
      const ByteView record = batch[i];
      if (!IsFramed(record)) {
        sink.Refuse(i, ReasonOfFrame(record));
        continue;
      }
      const uint32_t id = SchemaIdOf(record);
      if (known == nullptr || id != last) {
        const auto at = programs_.find(id);
        known = at == programs_.end() ? nullptr : &at->second;
        last = id;
      }
      if (known != nullptr && known->program) [[likely]] {
        Take(*known->program, record.subspan(kFrameBytes), i, &sink, &why);
      } else {
        sink.Refuse(i, StrCat("schema ", id, ": ", known ? known->unfit : ReasonOf(id)));
      }
    }
  }

 private:
  struct Known {
    std::optional<AvroProgram> program;
    std::string unfit;  // why there is none
  };

  static void Take(const AvroProgram& program, ByteView record, size_t i, RowSink* sink, Misfit* why) {
    if (sink->RefuseOversize(i)) return;
    if (program.Run(record, sink->row(), why)) [[likely]] {
      sink->Keep(i);
    } else {
      sink->Refuse(i, std::move(*why));
      *why = {};
    }
  }

  // Asks the registry for the ids of the batch that are not known.
  void FindSchemas(const RecordBatch& batch) {
    std::set<uint32_t> ids;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (IsFramed(batch[i]) && !programs_.contains(SchemaIdOf(batch[i]))) ids.insert(SchemaIdOf(batch[i]));
    }
    if (ids.empty()) return;
    registry_->Find(ids, [this](uint32_t id, const std::string& text) {
      if (programs_.size() >= kMaxPrograms) programs_.clear();
      std::string where;
      auto program = CompileText(text, schema_, writers_, &where);
      Known& known = programs_[id];
      if (program.ok()) {
        known.program = std::move(*program);
      } else {
        known.unfit = program.status().message();
      }
    });
  }

  std::string ReasonOf(uint32_t id) const {
    if (registry_) return registry_->Reason(id);
    if (!schema_.avro.folder.empty())
      return "is not among those of " + schema_.avro.folder + " that fit the job";
    return "is not in the job's registry";
  }

  const Schema schema_;
  const Writers writers_;
  const std::unique_ptr<SchemaRegistry> registry_;
  std::unordered_map<uint32_t, Known> programs_;
  const AvroProgram* plain_ = nullptr;
};

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
                    StrCat("needs more than ", AvroProgram::kMaxSteps, " steps to read"));
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
    if (types_[type].kind == AvroKind::kUnion)
      return Branches(type, name, [&](uint32_t branch) { Inside(branch, name, wanted, depth); });
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
    if (types_[type].kind == AvroKind::kNull)
      return ForField(writers_[field]->has_default() ? Op::kDefault : Op::kIsNull, field);
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

std::vector<std::string> UseAvro(const AvroTexts& texts, Schema* schema) {
  AvroSettings& avro = schema->avro;
  const bool folder = !avro.folder.empty();
  const Writers writers = MakeWriters(*schema);
  std::vector<bool> found(schema->fields.size());
  std::vector<std::string> unfit;
  avro.texts.clear();
  for (const auto& [id, text] : texts) {
    std::string where;
    const auto program = CompileText(text, *schema, writers, &where);
    if (program.ok()) {
      for (size_t i = 0; i < found.size(); ++i) found[i] = found[i] || program->Has(i);
      avro.texts.emplace(id, text);
      continue;
    }
    const std::string why = WriterName(avro, id) + ": " + program.status().message();
    if (!folder) throw std::invalid_argument((where.empty() ? avro.where : where) + ": " + why);
    unfit.push_back(why);
  }
  if (avro.texts.empty()) {
    throw std::invalid_argument(avro.where + ": no schema fits the job's fields" +
                                (unfit.empty() ? "" : ": " + unfit.back()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Field& field = schema->fields[i];
    if (writers[i] && !found[i])
      throw std::invalid_argument(field.where + ": field '" + field.path_text() +
                                  "' is in none of the Avro schemas");
  }
  return unfit;
}

std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema) {
  if (!schema.avro.registry) return MakeAvroDecoder(schema, nullptr);
  auto service = OrThrow(OpenRegistry(*schema.avro.registry));
  return MakeAvroDecoder(schema,
                         std::make_unique<SchemaRegistry>(std::move(service), schema.avro.registry->timeout));
}

std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry) {
  return std::make_unique<AvroDecoder>(schema, std::move(registry));
}

Result<std::unique_ptr<SchemaService>> OpenRegistry(const RegistryOptions& options) {
  net::HttpClient::Options http{.ca = options.ca,
                                .certificate = options.certificate,
                                .key = options.key,
                                .max_body = SchemaService::kMaxReply};
  if (options.user) {
    LEAT_ASSIGN_OR_RETURN(http.user, ReadSecretValue(*options.user));
  }
  if (options.key_password) {
    LEAT_ASSIGN_OR_RETURN(http.key_password, ReadSecretValue(*options.key_password));
  }
  return std::unique_ptr<SchemaService>(std::make_unique<HttpSchemaService>(options.url, std::move(http)));
}

SchemaRegistry::Timing SchemaRegistry::RealTiming() {
  return {.now = [] { return MonotonicClock().Now(); },
          .wait = [](Duration time) { std::this_thread::sleep_for(time); }};
}

SchemaRegistry::SchemaRegistry(std::unique_ptr<SchemaService> service, Duration timeout, Timing timing)
    : service_(std::move(service)),
      timeout_(timeout),
      timing_(std::move(timing)),
      waits_again_(std::numeric_limits<int64_t>::min()),
      asks_again_(std::numeric_limits<int64_t>::min()) {}

void SchemaRegistry::Find(const std::set<uint32_t>& ids,
                          const std::function<void(uint32_t, const std::string&)>& found) {
  const Time begin = timing_.now(), deadline = begin + timeout_;
  std::map<uint32_t, std::string> open;  // and why each is
  for (const uint32_t id : ids) {
    const auto at = unknown_.find(id);
    if (at == unknown_.end() || begin >= at->second.until) open.emplace(id, silence_);
  }
  if (open.empty()) return;
  if (begin >= asks_again_) {
    const bool patient = begin >= waits_again_;
    Status answered;
    for (Duration wait = kFirstWait;; wait = std::min(2 * wait, kLongestWait)) {
      answered = AskAll(&open, deadline, found);
      if (open.empty()) return;
      if (!patient || timing_.now() + wait >= deadline) break;
      timing_.wait(wait);
    }
    const Time end = timing_.now();
    if (patient) waits_again_ = end + kPause;
    if (!answered.ok()) {
      asks_again_ = end + kPause;
      silence_ = answered.message();
    }
  }
  for (auto& [id, reason] : open) Remember(id, std::move(reason));
}

Status SchemaRegistry::AskAll(std::map<uint32_t, std::string>* ids, Time deadline,
                              const std::function<void(uint32_t, const std::string&)>& found) {
  for (auto next = ids->begin(); next != ids->end();) {
    auto& [id, reason] = *next;
    const Duration left = deadline - timing_.now();
    const auto text = left > Duration(0) ? service_->Get(id, left)
                                         : Status(Code::kDeadlineExceeded, "the registry is too slow");
    if (!text.ok() && IsSilence(text.status())) {  // the others would not be answered either
      for (; next != ids->end(); ++next) next->second = text.status().message();
      return text.status();
    }
    if (text.ok()) {
      unknown_.erase(id);
      found(id, *text);
    } else if (text.status().code() == Code::kNotFound) {
      reason = text.status().message();
      ++next;
      continue;
    } else {
      Remember(id, text.status().message());
    }
    next = ids->erase(next);
  }
  return {};
}

void SchemaRegistry::Remember(uint32_t id, std::string reason) {
  if (unknown_.size() >= kMaxUnknown) unknown_.clear();
  unknown_[id] = {std::move(reason), timing_.now() + kPause};
}

std::string SchemaRegistry::Reason(uint32_t id) const {
  const auto at = unknown_.find(id);
  return at == unknown_.end() ? "is not known" : at->second.reason;
}

}  // namespace leat::stream
