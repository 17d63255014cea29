// leat cert: a private certificate authority.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "net/security/certificate.h"

namespace leat {
namespace {

struct CertArguments {
  std::string authority;
  int authority_days = 3650;
  std::string roles;
  std::string folder;
  net::CertificateRequest request;
  int days = 365;
};

}  // namespace

void AddCertCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<CertArguments>();
  auto* cert = app.add_subcommand("cert", "create a certificate authority, and certificates for roles");
  cert->require_subcommand(1);

  auto* init = cert->add_subcommand("init", "create a private authority");
  init->add_option("dir", a->authority, "new folder of the authority")->required();
  init->add_option("--days", a->authority_days, "days that it is valid")
      ->capture_default_str()
      ->check(CLI::Range(1, 36'500));
  init->callback([a, result] {
    ThrowIfError(net::CreateAuthority(a->authority, a->authority_days));
    std::printf("created %s; keep %s secret\n", a->authority.c_str(),
                (std::filesystem::path(a->authority) / "ca-key.pem").c_str());
    *result = 0;
  });

  auto* issue = cert->add_subcommand("issue", "issue a certificate for a role");
  issue
      ->add_option(
          "role", a->roles,
          "coordinator, server, worker, feed, bots, serve, admin, observer, pool or agent; several with "
          "commas")
      ->required();
  issue->add_option("host", a->request.hosts,
                    "names, wildcard names (*.leat.example) and IP addresses of its hosts");
  issue->add_option("--authority", a->authority, "folder of the authority")->required();
  issue->add_option("--out", a->folder, "new folder of ca.pem, cert.pem and key.pem")->required();
  issue->add_option("--days", a->days, "days that it is valid")
      ->capture_default_str()
      ->check(CLI::Range(1, 3650));
  issue->callback([a, result] {
    a->request.valid = std::chrono::hours(24) * a->days;
    a->request.roles = CLI::detail::split(a->roles, ',');
    ThrowIfError(net::IssueCertificate(a->authority, a->folder, a->request));
    std::printf("created %s\n", a->folder.c_str());
    *result = 0;
  });
}

}  // namespace leat
