// leat cert: a private certificate authority.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "net/security/certificate.h"

namespace leat {
namespace {

struct AuthorityArguments {
  std::string folder;
  int days = 3650;
};

int CreateAuthority(const AuthorityArguments& a) {
  ThrowIfError(net::CreateAuthority(a.folder, a.days));
  std::printf("created %s; keep %s secret\n", a.folder.c_str(),
              (std::filesystem::path(a.folder) / "ca-key.pem").c_str());
  return 0;
}

struct CertificateArguments {
  std::string authority, roles, folder;
  net::CertificateRequest request;
  int days = 365;
};

int IssueCertificate(CertificateArguments a) {
  a.request.valid = std::chrono::hours(24) * a.days;
  a.request.roles = CLI::detail::split(a.roles, ',');
  ThrowIfError(net::IssueCertificate(a.authority, a.folder, a.request));
  std::printf("created %s\n", a.folder.c_str());
  return 0;
}

}  // namespace

void AddCertCommand(CLI::App& app, int* result) {
  auto* cert = app.add_subcommand("cert", "create a certificate authority, and certificates for roles");
  cert->require_subcommand(1);

  const auto [init, authority] =
      AddCommand(*cert, result, "init", "create a private authority", CreateAuthority);
  init->add_option("dir", authority->folder, "new folder of the authority")->required();
  AddNumber(init, "--days", &authority->days, "days that it is valid", 1, 36'500);

  const auto [issue, a] =
      AddCommand(*cert, result, "issue", "issue a certificate for a role", IssueCertificate);
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
  AddNumber(issue, "--days", &a->days, "days that it is valid", 1, 3650);
}

}  // namespace leat
