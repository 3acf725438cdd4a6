# What functions of templates return; each line is compared.
job "templates" {
  type = "batch"
  meta {
    list = "b,a"
  }
  group "g" {
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/cat"
        args    = ["local/out", "${NOMAD_ALLOC_DIR}/data/shared"]
      }
      env {
        GIVEN = "given"
      }
      template {
        destination = "local/out"
        perms       = "640"
        data        = <<-EOF
          add: {{ add 1 2 }} {{ 2 | add 3.5 }} {{ subtract 2 1 }} {{ multiply 2 3 }} {{ divide 2 6 }} {{ modulo 2 7 }}
          minimum: {{ minimum 2 1 }} {{ maximum 2 1 }}
          base64: {{ "a?>é" | base64Encode }} {{ "a?>é" | base64URLEncode }} {{ "YQ==" | base64Decode }} {{ "Pz4=" | base64URLDecode }}
          contains: {{ contains "a" "abc" }} {{ "a,b" | split "," | contains "b" }}
          env: {{ env "GIVEN" }} {{ envOrDefault "NOT_GIVEN" "else" }} {{ mustEnv "GIVEN" }} [{{ env "NOT_GIVEN" }}]
          meta: {{ env "NOMAD_META_list" }} {{ env "NOMAD_META_LIST" }} {{ env "meta.list" }}
          in: {{ in (split "," "a,b") "a" }}
          indent: {{ "x\ny" | indent 4 }}
          join: {{ "a,b" | split "," | join "-" }} {{ "a b" | replaceAll " " "_" }}
          loop: {{ range loop 3 }}{{ . }}{{ end }} {{ range loop 2 4 }}{{ . }}{{ end }}
          sums: {{ "x" | md5sum }} {{ "x" | sha256Hex }} {{ "x" | hmacSHA256Hex "k" }}
          parse: {{ parseBool "true" }} {{ parseFloat "1.50" }} {{ parseInt "10" }} {{ parseUint "7" }}
          json: {{ with parseJSON "{\"a\":[1,2.5,\"x\"],\"b\":null}" }}{{ .a }} {{ .b }} {{ . | toJSON }}{{ end }}
          pretty: {{ parseJSON "{\"a\":{\"b\":\"<&>\"}}" | toJSONPretty }} {{ parseJSON "{\"b\":\"<&>\"}" | toUnescapedJSON }}
          yaml: {{ with parseYAML "a: [1, x]\nb: ~" }}{{ .a }} {{ . | toYAML }}{{ end }}
          toml: {{ parseJSON "{\"a\":{\"b\":\"c\"},\"d\":1}" | toTOML }}
          regex: {{ "foo123" | regexMatch "^[a-z]+[0-9]+$" }} {{ "foo123" | regexReplaceAll "([0-9])" "<$1>" }}
          case: {{ "aB cd" | toLower }} {{ "aB cd" | toUpper }} {{ "aB cd" | toTitle }}
          trim: [{{ " x " | trimSpace }}] [{{ "xyx" | trimPrefix "x" }}] [{{ "xyx" | trimSuffix "x" }}] [{{ "xyx" | trim "x" }}]
          map: {{ range $k, $v := "a:1,b:2" | splitToMap "," ":" }}{{ $k }}={{ $v }};{{ end }}
          merge: {{ mergeMap (parseJSON "{\"a\":1}") (parseJSON "{\"a\":2,\"b\":3}") | toJSON }}
          builtin: {{ len "abc" }} {{ printf "%q %5.2f" "x" 1.5 }} {{ index (split "," "a,b") 1 }} {{ slice "abcd" 1 3 }} {{ html "<" }}
          logic: {{ if and true (not false) (eq 1 1) (lt 1 2) }}yes{{ else }}no{{ end }} {{ or "" "else" }}
          {{- define "part" }}<{{ . }}>{{ end }}
          define: {{ template "part" "x" }}
        EOF
      }
      template {
        destination     = "${NOMAD_ALLOC_DIR}/data/shared"
        left_delimiter  = "[["
        right_delimiter = "]]"
        data            = "shared {{ kept }} [[ env \"NOMAD_TASK_NAME\" ]]\n"
      }
    }
  }
}
