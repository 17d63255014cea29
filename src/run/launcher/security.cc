#include "run/launcher/security.h"

#include <netinet/in.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "net/address.h"
#include "net/security/private_file.h"

namespace leat::launcher {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool IsLoopback(const net::SocketAddress& address) {
  if (address.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr) >> 24 == 127;
  if (address.family() != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

constexpr size_t kTokenBytes = 16;

Result<std::filesystem::path> TokenFile() {
  const char* home = std::getenv("HOME");
  if (home == nullptr) {
    const passwd* user = getpwuid(getuid());
    home = user != nullptr ? user->pw_dir : "";
  }
  const std::filesystem::path folder(home);
  if (!folder.is_absolute()) {
    return Status(Code::kNotFound, "there is no home directory for the token file; set LEAT_TOKEN");
  }
  return folder / ".config/leat/token";
}

// The first line of what a token file has.
Result<std::string> FirstLine(const std::filesystem::path& path, const std::string& content) {
  std::string token = content.substr(0, content.find('\n'));
  if (!token.empty()) return token;
  return Status(Code::kInvalidArgument,
                path.string() + ": the token file is empty; remove it, or set LEAT_TOKEN");
}

}  // namespace

Result<Security> UserSecurity(const std::string& folder, bool trusted_network) {
  Security security{.folder = folder, .trusted_network = trusted_network};
  if (folder.empty() && !trusted_network) {
    security.folder = Variable("LEAT_SECURITY");
    const std::string trusted = Variable("LEAT_TRUSTED_NETWORK");
    if (!trusted.empty() && trusted != "0" && trusted != "1")
      return Status(Code::kInvalidArgument, "LEAT_TRUSTED_NETWORK is '" + trusted + "', it may be 0 or 1");
    security.trusted_network = trusted == "1";
  }
  if (!security.folder.empty() && security.trusted_network) {
    return Status(Code::kInvalidArgument,
                  "--security (or LEAT_SECURITY) and --trusted-network (or LEAT_TRUSTED_NETWORK) contradict "
                  "each other");
  }
  if (security.folder.empty()) return security;
  LEAT_ASSIGN_OR_RETURN(security.tls, net::TlsIdentity::Load(security.folder));
  return security;
}

Status CheckListen(const Security& security, const std::string& address) {
  if (security.tls != nullptr || security.trusted_network) return {};
  const auto addresses = net::Resolve(address);
  if (!addresses.ok()) return {};  // to be reported where it is used
  for (const net::SocketAddress& one : *addresses) {
    if (IsLoopback(one)) continue;
    return {Code::kInvalidArgument, "to listen beyond this host, on " + address +
                                        ", use --security DIR (TLS), or --trusted-network if every host on "
                                        "the network is trusted"};
  }
  return {};
}

Status CheckJob(const Security& security, const job::Job& job) {
  const std::string prefix = "job '" + job.name + "' ";
  if (job.tls && security.tls == nullptr)
    return {Code::kInvalidArgument, prefix + "requires TLS (security: tls); start with --security DIR"};
  if (security.tls == nullptr) return {};
  if (job.trusted_network) {
    return {Code::kInvalidArgument,
            prefix + "is for a trusted network (cluster: trusted_network); start without --security"};
  }
  if (job.strategy.mpi)
    return {Code::kInvalidArgument,
            prefix + "reduces by MPI, which does not encrypt; start without --security"};
  return {};
}

Result<std::string> UserToken() {
  if (const char* token = std::getenv("LEAT_TOKEN"); token != nullptr && *token != '\0')
    return std::string(token);
  if (const char* named = std::getenv("LEAT_TOKEN_FILE"); named != nullptr && *named != '\0') {
    const auto content = net::ReadPrivateFile(named);
    if (content.ok()) return FirstLine(named, *content);
    // A named token file must exist: a generated token would match no other process.
    const Code code = content.status().code();
    return Status(code == Code::kNotFound ? Code::kInvalidArgument : code,
                  "LEAT_TOKEN_FILE: " + content.status().message());
  }
  LEAT_ASSIGN_OR_RETURN(const auto path, TokenFile());
  auto content = net::ReadPrivateFile(path);
  if (content.status().code() == Code::kNotFound) {
    if (const Status created = net::CreatePrivateFile(path, RandomToken() + "\n"); !created.ok())
      return Status(Code::kNotFound, created.message() + "; set LEAT_TOKEN instead");
    content = net::ReadPrivateFile(path);
  }
  if (!content.ok()) return content.status();
  return FirstLine(path, *content);
}

std::string RandomToken() {
  return net::RandomHex(kTokenBytes);
}

}  // namespace leat::launcher
