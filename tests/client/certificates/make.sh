#!/bin/sh
# Makes every certificate in this folder anew.  Needs OpenSSL 3; run it here.
set -eu
mkdir work && : > work/index && echo 01 > work/serial
cat > work/config <<C
[ca]
default_ca = any
[any]
database = work/index
serial = work/serial
new_certs_dir = work
default_md = sha256
policy = names
unique_subject = no
[names]
commonName = supplied
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
C
request() {  # name
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj "/CN=$1" -keyout "work/$1.key" -out "work/$1.csr"
}
sign() {  # name, first day, last day, and how
    name=$1 first=$2 last=$3
    shift 3
    openssl ca -batch -config work/config -startdate "${first}000000Z" -enddate "${last}000000Z" \
        -in "work/$name.csr" -out "work/$name.crt" -notext "$@"
}
authority() {  # name
    request "$1"
    sign "$1" 20000101 21200101 -selfsign -keyfile "work/$1.key" -extensions authority
    cp "work/$1.crt" "$1.pem"
}
certificate() {  # name, authority, alternative names, purpose, first day, last day
    request "$1"
    cat >> work/config <<C
[$1]
subjectAltName = $3
extendedKeyUsage = $4
keyUsage = critical, digitalSignature
C
    sign "$1" "$5" "$6" -cert "$2.pem" -keyfile "work/$2.key" -extensions "$1"
    cat "work/$1.crt" "work/$1.key" > "$1.pem"
}
authority authority
authority stranger
certificate server authority "IP:127.0.0.1, DNS:localhost" serverAuth 20000101 21200101
certificate wrong-host authority "DNS:other.example" serverAuth 20000101 21200101
certificate expired authority "IP:127.0.0.1, DNS:localhost" serverAuth 20000101 20000102
certificate client authority "DNS:client.example" clientAuth 20000101 21200101
certificate strange-client stranger "DNS:client.example" clientAuth 20000101 21200101
openssl ec -in work/client.key -aes128 -passout pass:secret -out locked.key
chmod 644 ./*.pem locked.key
rm -r work
