#!/bin/bash
# Starts one role of a job on this node: role.sh STATE ROLE [ARGUMENTS]. leat.sbatch and join.sh call it. STATE is the
# directory beside the job's directory, with the settings of the allocation.
state=$1 role=$2
shift 2
refuse() {
  echo "leat: $*" >&2
  exit 2
}
declare -A setting
read_settings() { while read -r key value; do setting[$key]=$value; done < "$state/settings"; }
[[ -r $state/settings ]] || refuse "no allocation runs the job of ${state%.slurm}: $state/settings is not there, on $(hostname)"
read_settings

arguments=()
if [[ -n ${setting[interface]} ]]; then
  host=$(ip -o -4 addr show dev "${setting[interface]}" 2> /dev/null | awk '{sub("/.*", "", $4); print $4; exit}')
  [[ -n $host ]] || refuse "no IPv4 address of interface ${setting[interface]} on $(hostname)"
elif [[ -n ${setting[security]} || -n ${setting[trusted]} ]]; then
  # As Slurm's configuration says; a node's own /etc/hosts may lead to loopback.
  host=$(scontrol show node -o "${SLURMD_NODENAME:-$(hostname -s)}" 2> /dev/null | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
  host=$(getent ahostsv4 "${host:-$(hostname)}" | awk '{print $1; exit}')
  [[ -n $host ]] || refuse "no address of node ${SLURMD_NODENAME-}; name its network interface with --interface"
else
  host=127.0.0.1
fi
if [[ -n ${setting[security]} ]]; then
  folder=${setting[security]}
  certificate=${role/#ps/server}
  [[ ! -d $folder/coordinator ]] || folder=$folder/$certificate
  arguments+=(--security "$folder")
elif [[ -n ${setting[trusted]} ]]; then
  arguments+=(--trusted-network)
fi
if [[ $role == coordinator ]]; then
  # After a failure it gets the address back that all roles know.
  listen=$1 domain=$2
  shift 2
  arguments+=(--listen "$host:${listen##*:}")
  [[ -z $domain ]] || arguments+=(--advertise "${SLURMD_NODENAME:-$(hostname -s)}.$domain")
else
  for ((i = 0; i < 600 && ${#setting[coordinator]} == 0; ++i)); do
    sleep 0.1
    read_settings
  done
  if [[ -z ${setting[coordinator]} ]]; then
    echo "leat: the coordinator has not started within a minute" >&2
    exit 75  # it may later
  fi
  arguments+=(--coordinator "${setting[coordinator]}")
  [[ $role == bots ]] || arguments+=(--listen "$host:0")
  [[ $role == bots || -z ${setting[data]} ]] || arguments+=(--data "${setting[data]}")
fi
token_file=${setting[token_file]}
[[ $(stat -L -c %a "$token_file" 2>&1) =~ ^[4-7]00$ ]] || refuse "token file $token_file: missing on $(hostname), or other users can read or write it"
LEAT_TOKEN=$(head -n 1 "$token_file")
[[ -n $LEAT_TOKEN ]] || refuse "token file $token_file is empty"
export LEAT_TOKEN
exec "${setting[program]}" "$role" "${arguments[@]}" "$@"
