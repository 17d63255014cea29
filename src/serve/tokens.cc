#include "serve/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "net/security/private_file.h"

namespace leat::serve {
namespace {

using Digest = std::array<unsigned char, 32>;

Digest DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

}  // namespace

Result<std::unique_ptr<Tokens>> Tokens::Load(std::string path) {
  std::unique_ptr<Tokens> tokens(new Tokens(std::move(path)));
  tokens->stamp_ = net::FileStamp(tokens->path_);
  LEAT_RETURN_IF_ERROR(tokens->Read());
  return tokens;
}

Status Tokens::Read() {
  LEAT_ASSIGN_OR_RETURN(const std::string text, net::ReadPrivateFile(path_));
  std::set<Digest> digests;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeUntil("\n", &rest);
    const std::string_view token = Trimmed(TakeUntil("#", &line));
    if (token.empty()) continue;
    const auto bad = [](char c) { return c <= ' ' || c >= '\x7f'; };
    const std::string where = path_ + ":" + std::to_string(number) + ": ";
    if (std::ranges::any_of(token, bad))
      return {Code::kInvalidArgument, where + "a token has no blanks, and only letters of ASCII"};
    if (token.size() < kLeastCharacters)
      return {Code::kInvalidArgument,
              where + "a token needs at least " + std::to_string(kLeastCharacters) + " characters"};
    digests.insert(DigestOf(token));
  }
  if (digests.empty()) return {Code::kInvalidArgument, path_ + ": there is no token in it"};
  digests_ = std::move(digests);
  return {};
}

bool Tokens::Accepts(std::string_view token, Time now) {
  constexpr Duration kLook = std::chrono::seconds(1);
  std::lock_guard lock(mutex_);
  if (now >= looked_ + kLook) {
    looked_ = now;
    std::string stamp = net::FileStamp(path_);
    if (stamp != stamp_) {
      stamp_ = std::move(stamp);
      const Status status = Read();
      if (!status.ok()) spdlog::warn("the former tokens stay valid: {}", status.message());
    }
  }
  return digests_.contains(DigestOf(token));
}

}  // namespace leat::serve
