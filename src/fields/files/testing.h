// For tests: files that are compared with lists of fields (fields.h), and written from them: goldens of
// bytes, and the tables of docs/formats/.
//
//   EXPECT_EQ((fields::GoldenFault<Request, Reply>(LEAT_CONTROL_GOLDENS)), "");
//   EXPECT_EQ((fields::PageFault<Request, Reply>(LEAT_CONTROL_PAGE)), "");
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <variant>

#include "base/encoding/hex.h"
#include "fields/codec.h"
#include "fields/description.h"
#include "fields/fields.h"
#include "fields/testing.h"

namespace leat::fields {

// ---- goldens: bytes in a file, which no change of a list may read otherwise

// What is wrong with the goldens of these structs, and of each kind of these variants: lines of a name, a
// value (ToText) and its bytes, divided by tabs. LEAT_WRITE_GOLDENS=1 writes those that are missing or wrong.
template <class... Ts>
std::string GoldenFault(const std::string& path, bool write = std::getenv("LEAT_WRITE_GOLDENS") != nullptr) {
  std::map<std::string, std::string> found, good;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) found[line.substr(0, line.find('\t'))] = line;
  std::string fault;
  // `is_kind`: whether the value is of the kind that the line is for.
  const auto check = [&]<class T>(const T*, const std::string& name, const auto& is_kind) {
    const auto line_of = [&](const T& value) {
      return name + '\t' + ToText(value) + '\t' + ToHex(Encode(value));
    };
    const auto at = found.find(name);
    if (at != found.end()) {
      const auto bytes = FromHex(at->second.substr(at->second.rfind('\t') + 1));
      const auto read = bytes ? Decode<T>(*bytes, name) : Status(Code::kDataLoss, name + " has no bytes");
      if (read.ok() && is_kind(*read) && line_of(*read) == at->second) {
        good.insert(*at);
        return;
      }
      if (fault.empty())
        fault = read.ok() ? at->second + " is now " + line_of(*read) : read.status().message();
    } else if (fault.empty()) {
      fault = name + " is missing";
    }
    // Of many values the one with the most to tell.
    Bytes longest;
    for (uint64_t seed = 1; seed <= 1000; ++seed) {
      const auto value = Random<T>(seed);
      if (!is_kind(value)) continue;
      const Bytes bytes = Encode(value);
      if (good.contains(name) && (bytes.size() <= longest.size() || bytes.size() > 500)) continue;
      longest = bytes;
      good[name] = line_of(value);
    }
  };
  const auto check_all = [&]<class T>(const T* type) {
    if constexpr (Alternatives<T>) {
      const auto check_kind = [&]<class Message>(const Kind<Message>& kind) {
        check(type, std::string(NameOfKinds(type)) + " " + std::string(kind.name),
              [](const T& value) { return std::holds_alternative<Message>(value); });
      };
      std::apply([&](const auto&... kind) { (check_kind(kind), ...); }, KindsOf(type));
    } else {
      check(type, std::string(NameOfFields(type)), [](const T&) { return true; });
    }
  };
  (check_all(static_cast<const Ts*>(nullptr)), ...);
  for (const auto& [name, line] : found) {
    if (fault.empty() && !good.contains(name)) fault = name + " is of no message";
  }
  if (fault.empty()) return {};
  if (!write) return path + ": " + fault + "; LEAT_WRITE_GOLDENS=1 writes it";
  std::ofstream out(path);
  for (const auto& [name, line] : good) out << line << '\n';
  return {};
}

// ---- tables of docs/formats/

// What is wrong with the page's tables of these structs and variants, or of those inside them. Each of Ts has
// one: a line `<!-- fields: NAME -->`, then the table, and a line `<!-- end -->`. LEAT_WRITE_DOCS=1 writes
// them.
template <class... Ts>
std::string PageFault(const std::string& path, bool write = std::getenv("LEAT_WRITE_DOCS") != nullptr) {
  std::ifstream in(path);
  std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::string before = page, start = "<!-- fields: ", end = "<!-- end -->";
  const Description all = Describe<Ts...>();
  for (const Description::Block& block : all.blocks()) {
    const std::string line = start + block.name + " -->";
    const size_t at = page.find(line + '\n');
    if (at == std::string::npos) {
      if ((all.IsOf<Ts>(block) || ...)) return path + " has no line " + line;
      continue;
    }
    const size_t from = at + line.size() + 1, to = page.find(end, from);
    if (to == std::string::npos || page.substr(from, to - from).find(start) != std::string::npos)
      return path + ": the table of " + block.name + " has no " + end;
    page.replace(from, to - from, "\n" + TableOf(block) + "\n");
  }
  if (page == before) return {};
  if (!write) {
    const size_t at = static_cast<size_t>(std::ranges::mismatch(page, before).in1 - page.begin());
    const size_t from = page.rfind('\n', at) + 1, to = page.find('\n', at);
    return path + " differs from the fields; run with LEAT_WRITE_DOCS=1. The first line: " +
           page.substr(from, to - from);
  }
  std::ofstream(path) << page;
  return {};
}

}  // namespace leat::fields
