package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// index is what /openapi/v3 answers.
type index struct {
	Paths map[string]struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	} `json:"paths"`
}

// The document that the questions are about: every server has it, and it is small.
const asked = "apis/coordination.k8s.io/v1"

// A media type that the control has and ours has not.
const protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"

// behaviour is how a server answers a question about a document: what is the same on every server.
type behaviour struct {
	Status       int
	Type         string `json:",omitempty"`
	CacheControl string
	Vary         string `json:",omitempty"`
	HasTag       bool
	Expires      bool
	HasContent   bool
	Location     bool
}

type client struct {
	http  *http.Client
	url   string
	token string
}

// fetch keeps all documents in the folder, each under its name with slashes as underscores, and the behaviours.
func fetch(url, token, ca, folder string) error {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := client{&http.Client{Transport: transport, CheckRedirect: stay, Timeout: time.Minute}, url, token}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	_, body, err := c.get("/openapi/v3", nil)
	if err != nil {
		return err
	}
	var found index
	if err := json.Unmarshal(body, &found); err != nil {
		return fmt.Errorf("the index: %w", err)
	}
	for name, entry := range found.Paths {
		answer, body, err := c.get(entry.ServerRelativeURL, nil)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", entry.ServerRelativeURL, answer.Status)
		}
		if err := os.WriteFile(filepath.Join(folder, file(name)), body, 0o644); err != nil {
			return err
		}
	}
	seen, err := c.behaviours(found.Paths[asked].ServerRelativeURL)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(seen, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, behaviours), text, 0o644)
}

// The file of the behaviours, beside the documents.
const behaviours = "behaviours"

func file(name string) string { return strings.ReplaceAll(name, "/", "_") + ".json" }

func (c client) get(path string, headers map[string]string) (*http.Response, []byte, error) {
	request, err := http.NewRequest(http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

// behaviours asks for one document in all the ways that clients and caches do.
func (c client) behaviours(hashed string) (map[string]behaviour, error) {
	plain := "/openapi/v3/" + asked
	first, _, err := c.get(plain, nil)
	if err != nil {
		return nil, err
	}
	tag := first.Header.Get("ETag")
	seen := map[string]behaviour{}
	for name, question := range map[string]struct {
		path    string
		headers map[string]string
	}{
		"without a hash":                           {plain, nil},
		"with its hash":                            {hashed, nil},
		"with another hash":                        {plain + "?hash=0123", nil},
		"with its hash and its tag":                {hashed, map[string]string{"If-None-Match": tag}},
		"with its tag":                             {plain, map[string]string{"If-None-Match": tag}},
		"with its tag as a weak one":               {plain, map[string]string{"If-None-Match": `"a", W/` + tag}},
		"with another tag":                         {plain, map[string]string{"If-None-Match": `"a"`}},
		"for JSON":                                 {plain, map[string]string{"Accept": "application/json"}},
		"for anything":                             {plain, map[string]string{"Accept": "*/*"}},
		"for JSON rather than protobuf":            {plain, map[string]string{"Accept": protobuf + ";q=0.5, application/json"}},
		"for YAML":                                 {plain, map[string]string{"Accept": "application/yaml"}},
		"for what is not there":                    {"/openapi/v3/apis/none/v1", nil},
		"for a resource":                           {"/openapi/v3/api/v1/pods", nil},
		"for the document of the groups":           {"/openapi/v3/apis", nil},
		"for the document of a group":              {"/openapi/v3/apis/coordination.k8s.io", nil},
		"for the document of the server's version": {"/openapi/v3/version", nil},
	} {
		answer, body, err := c.get(question.path, question.headers)
		if err != nil {
			return nil, err
		}
		headers := answer.Header
		shown := behaviour{
			Status: answer.StatusCode, Vary: headers.Get("Vary"), CacheControl: headers.Get("Cache-Control"),
			HasTag: headers.Get("ETag") != "", Expires: headers.Get("Expires") != "",
			Location: headers.Get("Location") == hashed,
		}
		// Ours says why something is not there, the control just that.
		if answer.StatusCode != http.StatusNotFound {
			shown.HasContent = len(body) > 0
		}
		if answer.StatusCode == http.StatusOK {
			shown.Type = headers.Get("Content-Type")
		}
		seen[name] = shown
	}
	return seen, nil
}
